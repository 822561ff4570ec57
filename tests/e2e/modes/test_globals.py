# SPDX-License-Identifier: Apache-2.0
"""The view `globals`, against a program that knows its variables, and against nm."""

import re
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def program(target):
    return target("globals")


def own(result, program):
    return [row for row in result["variables"] if row["module"] == str(program)]


def test_variables_have_size_section_place_and_resident_bytes(record, report_json, program):
    run = record([program])
    truth = [line.split() for line in run.stdout.splitlines()]
    rows = {re.sub(r"\.\d+$", "", row["variable"] or ""): row for row in own(report_json(run.path, "globals", "--limit", "100000"), program)}
    assert len(truth) == 6
    for name, section, size, more in truth:
        row = rows[name]
        assert (row["section"], row["bytes"]) == (section, int(size)), name
        assert row["file"].endswith("/globals.c") and f" {name}[" in "".join(open(row["file"]).readlines()[row["line"] - 1 :][:1])
        if section == "tls":
            assert (row["copies"], row["size_bytes"], row["resident_bytes"]) == (int(more), int(size) // int(more), None)
        else:
            assert (row["copies"], row["resident_bytes"]) == (1, int(more)), name


def test_rows_add_up_to_the_segments(record, report_json, program):
    """The writable segments, by readelf; and the symbols in them, by nm."""
    result = report_json(record([program]).path, "globals", "--limit", "100000")
    rows = own(result, program)
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    segments = [line.split() for line in headers.splitlines() if re.match(r"\s+(LOAD|TLS)\s", line)]
    writable = sum(int(s[5], 16) for s in segments if s[0] == "LOAD" and "W" in "".join(s[6:-1]))
    tls = sum(int(s[5], 16) for s in segments if s[0] == "TLS")
    assert sum(row["size_bytes"] for row in rows if row["section"] != "tls") == writable
    assert sum(row["size_bytes"] for row in rows if row["section"] == "tls") == tls
    assert sum(row["bytes"] for row in result["variables"]) == result["bytes"]
    assert sum(row["resident_bytes"] or 0 for row in result["variables"]) == result["resident_bytes"] < result["rss_bytes"]
    listed = [line.split() for line in subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout.splitlines()]
    objects = {line[0]: int(line[1], 16) for line in listed if len(line) == 4 and line[2] in "bBdD"}
    assert sum(row["size_bytes"] for row in rows if row["variable"]) == sum(objects.values())


def test_libraries_have_their_variables_and_a_rest(record, report_json, program):
    """With or without debug symbols of libc: what its tables name has its size, and the rest is one row."""
    rows = [row for row in report_json(record([program]).path, "globals", "--limit", "100000")["variables"] if "/libc." in row["module"]]
    sizes = {row["variable"]: row["size_bytes"] for row in rows}
    assert sizes["stdout"] == 8 and None in sizes
    assert all(row["section"] in ("data", "bss", "relro", "tls", "static") for row in rows)


def test_without_symbols_each_module_is_one_row(record, report_json, program):
    rows = own(report_json(record([program]).path, "globals", "--no-symbols"), program)
    assert [(row["variable"], row["section"]) for row in rows] == [(None, "static"), (None, "tls")]
    assert rows[0]["bytes"] > 66 << 20 and rows[0]["resident_bytes"] < 8 << 20


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
def test_clang_counts_files_from_zero(record, report_json, scratch):
    """In DWARF 5, which libdw takes for no file."""
    source = scratch / "main.c"
    source.write_text("#include <unistd.h>\nchar named[100000];\nint main(void) { named[0] = 1; sleep(1); return 0; }\n")
    subprocess.run(["clang", "-g", "-gdwarf-5", "main.c", "-o", "main"], cwd=scratch, check=True)
    rows = own(report_json(record([scratch / "main"]).path, "globals"), scratch / "main")
    assert [(row["file"], row["line"]) for row in rows if row["variable"] == "named"] == [(str(source), 2)]


def test_a_process_that_ended_at_once_has_none_and_says_so(record, heapgauge, target, clean_env):
    run = record([target("does_nothing")])
    shown = subprocess.run([heapgauge, "report", run.path, "--view", "globals"], env=clean_env, capture_output=True, text=True, check=True)
    assert "1 process ended before its variables were read, or was not" in shown.stdout or "[no symbols]" in shown.stdout


def test_the_moment_is_said(record, heapgauge, program, clean_env):
    shown = subprocess.run([heapgauge, "report", record([program]).path, "--view", "globals"], env=clean_env, capture_output=True, text=True, check=True)
    assert re.search(r"\n  resident  .* of the RSS at [\d.]+ m?s, besides ", shown.stdout), shown.stdout
