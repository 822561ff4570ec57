# SPDX-License-Identifier: Apache-2.0
"""The views of time, growth and timeline, on a program with one site of each course (tests/targets/t_growth.c)."""

import re
import shlex
import subprocess

import pytest

LEAKED_PER_SECOND = 1000 * 1000 / 5  # 1000 bytes every 5 ms


def by_function(result):
    """The rows by the innermost function of the program itself."""
    rows = {}
    for row in result["sites"]:
        for frame in row["stack"]:
            if frame["module"].endswith("t_growth"):
                rows[frame["function"]] = row
                break
    return rows


def test_each_course_gets_its_verdict(record, report_json, target):
    run = record([target("t_growth"), "3000"])
    assert run.returncode == 0
    result = report_json(run.path, "growth")
    sites = by_function(result)
    assert {name: row["verdict"] for name, row in sites.items()} == {
        "leak": "growing",
        "fill_cache": "bounded",
        "add_to_batch": "bounded",
        "begin_late": "not enough data",
    }
    leak = sites["leak"]
    # A loaded machine delays single steps, but the clock they go by is absolute.
    assert leak["bytes_per_second"] == pytest.approx(LEAKED_PER_SECOND, rel=0.15)
    assert leak["slowest_bytes_per_second"] <= leak["bytes_per_second"] <= leak["fastest_bytes_per_second"]
    assert leak["confidence_per_mille"] >= 990
    assert leak["frees"] == 0 and leak["live_bytes"] == 600 * 1000
    assert sites["begin_late"]["bytes_per_second"] is None
    assert abs(sites["add_to_batch"]["bytes_per_second"]) < LEAKED_PER_SECOND / 3
    assert result["sites"][0] == leak, "the growing one comes first"
    assert result["growing_sites"] == 1
    assert result["growing_bytes_per_second"] == leak["bytes_per_second"]


def test_a_short_run_gives_no_verdict(record, report_json, target):
    run = record([target("t_growth"), "500"])
    result = report_json(run.path, "growth")
    assert {row["verdict"] for row in result["sites"]} == {"not enough data"}
    assert result["growing_sites"] == 0
    assert result["heap_verdict"] == "not enough data"


def test_timeline_and_kept_moments_agree(record, report_json, target):
    run = record([target("t_growth"), "700"])
    rows = report_json(run.path, "timeline")["timeline"]
    assert [row["at_ns"] for row in rows] == sorted(row["at_ns"] for row in rows)
    summary = report_json(run.path)["processes"][0]
    peaks = [row for row in rows if row["peak"]]
    peak_at_ns = summary["started_offset_ns"] + summary["peak_at_ns"]
    assert [(row["live_bytes"], row["at_ns"]) for row in peaks] == [(summary["peak_bytes"], peak_at_ns)]
    # Every point is within the peak, which is exact to its bound.
    assert max(row["live_bytes"] for row in rows) <= summary["peak_bytes"] + summary["peak_bound_bytes"]
    assert rows[-1]["live_bytes"] == summary["leaked_bytes"] and rows[-1]["calls"] == summary["calls"]
    kept = {row["snapshot"]: row for row in rows if row["snapshot"]}
    assert list(kept) == list(range(1, len(kept) + 1)) and len(kept) >= 5
    for number in (1, len(kept) // 2, len(kept)):
        at = report_json(run.path, "functions", "--by", "process", "--cost", "live", "--at", f"snap:{number}")
        # Sites are read one after the other while the program goes on.
        assert at["shown"] == pytest.approx(kept[number]["live_bytes"], abs=20000)


def test_timeline_for_people_is_as_long_as_asked_and_has_the_peak(record, heapgauge, target):
    run = record([target("t_growth"), "400"])
    done = subprocess.run(
        [heapgauge, "report", run.path, "--view", "timeline", "--limit", "8"],
        env={"LC_ALL": "C"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    chart = [line for line in done.stdout.splitlines() if "#" in line]
    assert 4 <= len(chart) <= 8
    assert sum("peak" in line for line in chart) == 1
    assert max(chart, key=lambda line: line.count("#")).count("#") == 40


def test_the_summary_says_what_grows_and_its_next_commands_work(record, heapgauge, target):
    run = record([target("t_growth"), "2400"])
    ask = {"stdout": subprocess.PIPE, "text": True, "check": True}
    text = subprocess.run([heapgauge, "report", run.path], **ask).stdout
    leaked = next(line for line in text.splitlines() if line.startswith("  leaked"))
    rate = float(re.search(r"growing ([0-9.]+) KiB/s", leaked).group(1))
    assert rate * 1024 == pytest.approx(LEAKED_PER_SECOND, rel=0.2)
    commands = re.findall(r"-> heapgauge (report .*)", text)
    assert [command.rpartition("--view ")[2] for command in commands] == ["advice", "growth", "leaks"]
    for command in commands:
        shown = subprocess.run([heapgauge, *shlex.split(command)], **ask).stdout
        assert "leak" in shown
