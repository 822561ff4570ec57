# SPDX-License-Identifier: Apache-2.0
"""Heap profiles of other tools as recordings: files that jemalloc and Go wrote, compared with what jeprof and pprof say of them."""

import gzip
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from exports import output_of, tool

COSTS = {"live": "inuse_space", "blocks": "inuse_objects", "total": "alloc_space", "calls": "alloc_objects"}
KEYS = {"live": "live_bytes", "blocks": "live_blocks", "total": "total_bytes", "calls": "calls"}
EVERYTHING = ["--limit", "1000000"]

PROGRAM = """
#include <stdlib.h>
#include <string.h>
static void *kept[20000];
static int count;
#define APART __attribute__((noinline, noipa))
APART void *leaf(size_t bytes) { void *block = malloc(bytes); memset(block, 1, bytes); return block; }
APART void small_blocks(void) { for (int i = 0; i < 5000; i++) kept[count++] = leaf(48); }
APART void mixed_blocks(void) { for (int i = 0; i < 3000 * MORE; i++) kept[count++] = leaf(100 + i); }
APART void freed_blocks(void) { for (int i = 0; i < 20000; i++) { void *block = leaf(1000); free(block); } }
int main(void) { small_blocks(); mixed_blocks(); freed_blocks(); return 0; }
"""

GO_PROGRAM = """
package main
import ("os"; "runtime"; "runtime/pprof")
var kept [][]byte
//go:noinline
func hold(n int) { for i := 0; i < n; i++ { kept = append(kept, make([]byte, 1000+i)) } }
//go:noinline
func drop(n int) { for i := 0; i < n; i++ { kept[0] = make([]byte, 3000) } }
func main() {
	runtime.MemProfileRate = 4096
	hold(3000)
	drop(9000)
	runtime.GC()
	file, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(file)
	file.Close()
}
"""


def jemalloc():
    found = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if not found:
        pytest.skip("libjemalloc2 is not installed")
    return found


@pytest.fixture
def dump(scratch, clean_env):
    """dump(options, linked_in=False, more=1): a program and the heap profile that jemalloc wrote at its end."""

    def run(options, linked_in=False, more=1):
        flags = ["-l:libjemalloc.a", "-lpthread", "-ldl", "-lm", "-lstdc++"] if linked_in else []
        folder = scratch / str(more)
        folder.mkdir(exist_ok=True)
        program = compile_c(folder, "program", f"#define MORE {more}" + PROGRAM)
        if linked_in:
            subprocess.run(["gcc", "-g", "-O1", "-w", f"{program}.c", "-o", program, *flags], check=True, timeout=WAIT_SECONDS)
        conf = f"prof:true,prof_final:true,prof_prefix:{scratch}/dump{more},{options}"
        env = clean_env | {"MALLOC_CONF": conf} | ({} if linked_in else {"LD_PRELOAD": str(jemalloc())})
        subprocess.run([program], env=env, check=True, timeout=WAIT_SECONDS)
        (path,) = scratch.glob(f"dump{more}.*.heap")
        return program, path

    return run


def jeprof(program, path, cost):
    """The total, and {function: (self, cumulative)}."""
    text = output_of(tool("jeprof", "libjemalloc-dev"), "--text", "--show_bytes", f"--{COSTS[cost]}", program, path)
    rows = re.findall(r"^ *(\d+) +\S+ +\S+ +(\d+) +\S+ (\S+)$", text, re.M)
    return int(re.search(r"^Total: (\d+)", text, re.M)[1]), {name: (int(own), int(all)) for own, all, name in rows}


def total_of(report_json, path, cost):
    return sum(row[KEYS[cost]] for row in report_json(path, "sites", "--cost", cost, *EVERYTHING)["sites"])


def functions_of(report_json, path, cost):
    rows = report_json(path, "functions", "--cost", cost, *EVERYTHING)["functions"]
    return {row["function"]: (row["self"], row[KEYS[cost]]) for row in rows}


OWN = ("leaf", "small_blocks", "mixed_blocks", "main")


@pytest.mark.parametrize("interval", [0, 10, 14])
def test_jemalloc_totals_and_functions_are_those_of_jeprof(dump, report_json, interval):
    program, path = dump(f"lg_prof_sample:{interval},prof_accum:true")
    for cost in COSTS:
        total, functions = jeprof(program, path, cost)
        ours = functions_of(report_json, path, cost)
        assert total > 1000
        assert total_of(report_json, path, cost) == total
        for name in OWN:
            # Each stack is rounded here, each function there.
            assert ours[name] == pytest.approx(functions[name], abs=0 if interval == 0 else 2), (cost, name)
    process = report_json(path)["processes"][0]
    assert process["mode"] == ("sampled" if interval else "exact")


def test_a_linked_in_jemalloc_is_not_part_of_the_stacks(dump, report_json):
    program, path = dump("lg_prof_sample:0,prof_accum:true", linked_in=True)
    assert total_of(report_json, path, "live") == jeprof(program, path, "live")[0]
    ours = functions_of(report_json, path, "live")
    assert ours["leaf"] == (ours["leaf"][1],) * 2
    assert not [name for name in ours if "prof_" in name or "malloc" in name]


def test_errors_of_samples_cover_the_truth(dump, report_json):
    _, exact = dump("lg_prof_sample:0")
    truth = total_of(report_json, exact, "live")
    exact.unlink()
    _, sampled = dump("lg_prof_sample:12")
    (row,) = [row for row in report_json(sampled, "functions", "--cost", "live")["functions"] if row["function"] == "main"]
    assert 0 < row["live_bytes_error"] < truth / 10
    assert abs(row["live_bytes"] - truth) < 5 * row["live_bytes_error"] + 100_000


def run_command(heapgauge, clean_env, *argv):
    return subprocess.run([heapgauge, *argv], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)


def test_what_is_not_in_the_file_is_said_to_be_unknown(dump, heapgauge, clean_env, report_json):
    _, path = dump("lg_prof_sample:0")
    for view in ("peak", "lifetimes", "temporary", "sizes", "threads", "memory", "timeline", "growth", "health"):
        done = run_command(heapgauge, clean_env, "report", path, "--view", view)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"the view {view} is not known" in done.stderr
    for cost in ("total", "calls", "temporary", "lifetime", "peak"):
        done = run_command(heapgauge, clean_env, "report", path, "--cost", cost)
        assert done.returncode == 1 and "not known" in done.stderr, cost
    for name in ("dhat", "heaptrack", "csv", "massif"):
        done = run_command(heapgauge, clean_env, "export", path, "--format", name, "-o", "-")
        assert done.returncode == 1 and "not known" in done.stderr, name
    row = report_json(path, "sites")["sites"][0]
    assert [row[key] for key in ("calls", "total_bytes", "peak_bytes", "mean_lifetime_ns", "frees")] == [None] * 5
    assert report_json(path, "functions")["functions"][0]["calls"] is None
    done = run_command(heapgauge, clean_env, "bundle", path, "-o", path.with_suffix(".hg"))
    assert done.returncode == 1 and "cannot be bundled" in done.stderr
    (process,) = report_json(path, "summary")["processes"]
    assert [process[key] for key in ("peak_bytes", "temporary_calls", "calls", "total_bytes", "duration_ns")] == [None] * 5
    assert process["not_freed_bytes"] == total_of(report_json, path, "live")


def test_what_is_not_known_of_the_run_is_null(dump, heapgauge, clean_env, report_json):
    _, path = dump("lg_prof_sample:0")
    head = report_json(path, "sites")
    assert [head[key] for key in ("peak_bytes", "peak_at_ns")] == [None] * 2
    assert [head["run"][key] for key in ("started_real_ns", "duration_ns", "peak_bound_bytes")] == [None] * 3
    for view in ("tags", "pools", "freed-by"):
        done = run_command(heapgauge, clean_env, "report", path, "--view", view)
        assert done.returncode == 1 and f"the view {view} is not known" in done.stderr
    for axis, words in (("thread", "threads"), ("size", "sizes"), ("process", "processes"), ("entry", "entries"), ("pool", "pools")):
        done = run_command(heapgauge, clean_env, "report", path, "--by", axis)
        assert done.returncode == 1 and f"{words} are not known" in done.stderr


def test_an_export_of_estimates_does_not_speak_of_a_peak(dump, heapgauge, clean_env, scratch):
    _, path = dump("lg_prof_sample:12")
    done = run_command(heapgauge, clean_env, "export", path, "--format", "pprof", "-o", scratch / "out.pb.gz")
    assert done.returncode == 0, done.stderr
    text = gzip.decompress((scratch / "out.pb.gz").read_bytes())
    assert b"standard error of what is live" in text and b"peak" not in text


def varint(number):
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def pprof_of(values, unit="bytes", period_type="space", period=1):
    """A heap profile of one stack for each pair of live blocks and bytes."""
    strings = ["", "inuse_objects", "count", "inuse_space", unit, period_type, "main"]
    types = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4))
    samples = b"".join(field(2, field(1, 1) + field(2, blocks) + field(2, size)) for blocks, size in values)
    places = field(4, field(1, 1) + field(4, field(1, 1))) + field(5, field(1, 1) + field(2, 6))
    texts = b"".join(field(6, text.encode()) for text in strings)
    return types + samples + places + texts + field(11, field(1, 5) + field(2, 4)) + (field(12, period) if period else b"")


def test_a_unit_that_is_not_bytes_is_refused(scratch, heapgauge, clean_env):
    path = scratch / "other.pb"
    path.write_bytes(pprof_of([(3, 3000)], unit="kilobytes"))
    done = run_command(heapgauge, clean_env, "check", path, "--max-leaked", "1MiB")
    assert done.returncode == 2 and "its inuse_space is not in bytes" in done.stderr


def test_all_members_of_a_gzip_file_are_read(scratch, report_json):
    whole = pprof_of([(3, 3000), (4, 4000)])
    path = scratch / "members.pb.gz"
    for at in range(0, len(whole), 7):
        path.write_bytes(gzip.compress(whole[:at]) + gzip.compress(whole[at:]))
        assert total_of(report_json, path, "live") == 7000


@pytest.mark.parametrize("period_type, period", [("space", 0), ("cpu", 1000)])
def test_a_profile_that_may_have_been_sampled_keeps_no_budget(period_type, period, scratch, heapgauge, clean_env, report_json):
    path = scratch / "other.pb"
    path.write_bytes(pprof_of([(3, 3000)], period_type=period_type, period=period))
    assert report_json(path)["processes"][0]["mode"] == "unknown"
    assert total_of(report_json, path, "live") == 3000
    assert run_command(heapgauge, clean_env, "check", path, "--max-leaked", "1KiB").returncode == 1
    done = run_command(heapgauge, clean_env, "check", path, "--max-leaked", "1MiB")
    assert done.returncode == 2 and "does not say whether it was sampled" in done.stdout + done.stderr


def test_an_empty_profile_says_so(scratch, heapgauge, clean_env):
    path = scratch / "empty.pb"
    path.write_bytes(pprof_of([]))
    done = run_command(heapgauge, clean_env, "report", path)
    assert done.returncode == 0 and "there is no stack in this heap profile" in done.stdout


def test_a_jemalloc_profile_that_is_cut_off_is_refused(dump, scratch, heapgauge, clean_env):
    _, path = dump("lg_prof_sample:0")
    text = path.read_text()
    path.write_text(text[: text.index("\n@", text.index("@") + 1) + 1])
    done = run_command(heapgauge, clean_env, "check", path, "--max-leaked", "1GiB")
    assert done.returncode == 2 and "it was cut off" in done.stderr


def test_diff_and_check(dump, heapgauge, clean_env, report_json):
    _, before = dump("lg_prof_sample:0")
    _, after = dump("lg_prof_sample:0", more=2)
    grown = total_of(report_json, after, "live") - total_of(report_json, before, "live")
    done = run_command(heapgauge, clean_env, "diff", before, after, "--format", "json")
    changes = {row["measure"]: row["change"] for row in json.loads(done.stdout)["changes"]}
    assert changes == {"leaked": grown, "leaked blocks": 3000}
    assert run_command(heapgauge, clean_env, "check", before, "--max-leaked", "100MiB").returncode == 0
    assert run_command(heapgauge, clean_env, "check", after, "--max-leaked", "1MiB").returncode == 1
    unknown = run_command(heapgauge, clean_env, "check", after, "--max-peak", "100MiB")
    assert unknown.returncode != 0 and "does not have it" in unknown.stdout + unknown.stderr
    assert run_command(heapgauge, clean_env, "check", after, "--baseline", before).returncode == 1
    assert run_command(heapgauge, clean_env, "check", before, "--baseline", before).returncode == 0


def pprof_total(path, cost):
    text = output_of(tool("pprof", "go install github.com/google/pprof@latest"), "-raw", path)
    lines = text.split("\nSamples:\n")[1].split("\nLocations\n")[0].splitlines()
    at = [word.split("/")[0] for word in re.sub(r"\[dflt\]", "", lines[0]).split()].index(COSTS[cost])
    return sum(int(line.split(":")[0].split()[at]) for line in lines[1:] if re.match(r" *-?\d+ ", line))


def test_a_heap_profile_of_go(scratch, report_json, clean_env):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    (scratch / "main.go").write_text(GO_PROGRAM)
    path = scratch / "heap.pb.gz"
    env = clean_env | {"GOFLAGS": "-p=1"}
    subprocess.run(["go", "run", "main.go", path], cwd=scratch, env=env, check=True, timeout=4 * WAIT_SECONDS)
    plain = scratch / "heap.pb"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    for cost in COSTS:
        assert total_of(report_json, path, cost) == total_of(report_json, plain, cost) == pprof_total(path, cost) > 1000
    ours = functions_of(report_json, path, "live")
    assert ours["main.hold"][1] > 3_000_000 and "main.drop" not in {name for name, (_, all) in ours.items() if all > 100_000}
    assert report_json(path)["processes"][0]["mode"] == "sampled"


@pytest.mark.parametrize("mode", [[], ["--mode", "sample", "--interval", "4KiB"]])
def test_our_own_pprof_file_says_what_the_recording_says(build, record, scratch, heapgauge, clean_env, report_json, mode):
    run = record([compile_c(scratch, "program", "#define MORE 1" + PROGRAM)], *mode)
    path = scratch / "own.pb.gz"
    done = run_command(heapgauge, clean_env, "export", run.path, "--format", "pprof", "-o", path)
    assert done.returncode == 0, done.stderr
    for cost in COSTS:
        rows = {}
        for file in (run.path, path):
            listed = report_json(file, "functions", "--cost", cost, *EVERYTHING)["functions"]
            rows[file] = {row["function"]: (row["self"], row[KEYS[cost]]) for row in listed}
            if mode:
                (error,) = [row[KEYS[cost] + "_error"] for row in listed if row["function"] == "main"]
                rows[file]["error"] = pytest.approx(error, rel=0.02)
        assert rows[run.path] == rows[path]
        assert total_of(report_json, path, cost) == pprof_total(path, cost)


def test_other_files_are_refused_with_a_reason(scratch, heapgauge, clean_env):
    cases = {
        b"heap_v2/524288\n@ nonsense\n": "line 2 is not one of a heap_v2 profile",
        gzip.compress(b"some text"): "not a pprof profile",
        gzip.compress(b"\x0a\x04\x08\x01\x10\x02" + b"\x32\x00\x32\x03cpu\x32\x05count"): "not a heap profile",
        gzip.compress(b"x" * 1000)[:-9]: "cut off",
    }
    for content, reason in cases.items():
        path = scratch / "other.heap"
        path.write_bytes(content)
        done = run_command(heapgauge, clean_env, "report", path)
        assert done.returncode == 1 and reason in done.stderr, done.stderr
