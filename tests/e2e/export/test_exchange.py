# SPDX-License-Identifier: Apache-2.0
"""diff, check and merge on programs whose numbers are known: a rebuild with moved lines, a leak, a budget."""

import json
import subprocess
import xml.etree.ElementTree

import pytest

from compiled import WAIT_SECONDS, compile_c

# `keep` leaks COUNT blocks of SIZE bytes, `pass_on` frees what it allocates; LINES moves everything down.
PROGRAM = """
#include <stdlib.h>
void *volatile sink;
__attribute__((noinline)) void keep(int n) { while (n--) sink = malloc(SIZE); }
__attribute__((noinline)) void pass_on(int n) { while (n--) { sink = malloc(50); free(sink); } }
int main(void) { keep(COUNT); pass_on(1000); EXTRA; return 0; }
"""


@pytest.fixture
def program(scratch):
    def compile_one(name, count, size=100, lines=0, extra="", folder=""):
        source = "\n" * lines + PROGRAM.replace("COUNT", str(count)).replace("SIZE", str(size)).replace("EXTRA", extra)
        where = scratch / folder
        where.mkdir(exist_ok=True)
        return compile_c(where, name, source, "-g", "-O1")

    return compile_one


@pytest.fixture
def run(heapgauge, clean_env, scratch):
    def call(*argv, status=0):
        done = subprocess.run([heapgauge, *argv], env=clean_env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == status, (argv, done.stdout, done.stderr)
        return done.stdout

    return call


@pytest.fixture
def recordings(program, record):
    """Two builds of one program: the new one is in another folder, 30 lines further down, and leaks more."""
    old = record([program("app", 10, folder="old")])
    new = record([program("app", 17, lines=30, extra="sink = malloc(4096)", folder="new")])
    assert (old.returncode, new.returncode) == (0, 0)
    return old.path, new.path


def own(stacks):
    """The stacks of the program itself by the function that allocated."""
    return {s["stack"][0]["function"]: s for s in stacks if s["stack"][0]["function"] in ("keep", "main", "pass_on")}


def with_stacks(text):
    result = json.loads(text)
    for row in result["stacks"]:
        row["stack"] = [result["frames"][number] for number in row["stack"]]
    return result


def test_diff_survives_a_rebuild_and_moved_lines(run, recordings):
    stacks = own(with_stacks(run("diff", *recordings, "--cost", "leaked", "--format", "json"))["stacks"])
    assert (stacks["keep"]["before"], stacks["keep"]["after"], stacks["keep"]["change"]) == (1000, 1700, 700)
    assert (stacks["main"]["before"], stacks["main"]["change"]) == (0, 4096)
    assert "pass_on" not in stacks, "what did not change is not shown"
    changes = {c["measure"]: c["change"] for c in json.loads(run("diff", *recordings, "--format", "json"))["changes"]}
    assert changes["leaked"] == 700 + 4096
    assert changes["leaked blocks"] == changes["calls"] == 8


def test_diff_of_a_run_with_itself_is_nothing(run, recordings):
    result = with_stacks(run("diff", recordings[0], recordings[0], "--view", "sites", "--format", "json"))
    assert result["stacks"] == []
    assert run("diff", recordings[0], recordings[0]).count("0 B (") == 5


def test_every_view_of_a_diff_is_signed_and_adds_up(run, recordings):
    functions = json.loads(run("diff", *recordings, "--by", "function", "--cost", "leaked", "--format", "json"))
    assert sum(f["self"] for f in functions["functions"]) == 4796
    backwards = json.loads(run("diff", *reversed(recordings), "--by", "function", "--cost", "leaked", "--format", "json"))
    assert sum(f["self"] for f in backwards["functions"]) == -4796
    tree = json.loads(run("diff", *recordings, "--view", "tree", "--cost", "leaked", "--format", "json"))["tree"]
    assert sum(row["live_bytes"] for row in tree if row["depth"] == 1) == 4796
    focused = json.loads(run("diff", *recordings, "--view", "tree", "-c", "leaked", "--focus", "^keep$", "-f", "json"))["tree"]
    assert sum(row["live_bytes"] for row in focused if row["depth"] == 1) == 700


def test_per_unit_of_work(run, recordings):
    stacks = own(with_stacks(run("diff", *recordings, "-c", "leaked", "--per", "10", "-f", "json"))["stacks"])
    assert (stacks["keep"]["before"], stacks["keep"]["after"], stacks["keep"]["change"]) == (100, 170, 70)


def test_a_change_within_the_spread_says_so(run, program, record):
    apps = [program("same", n, folder=f"run{n}") for n in (10, 20, 12, 22)]
    a1, a2, b1, b2 = (record([app]).path for app in apps)
    stacks = own(with_stacks(run("diff", a1, a2, "--to", b1, b2, "-c", "leaked", "-f", "json"))["stacks"])
    assert (stacks["keep"]["before"], stacks["keep"]["after"]) == (1500, 1700)
    assert (stacks["keep"]["spread"], stacks["keep"]["within_spread"]) == (1000, True)
    far = record([program("same", 90, folder="run90")]).path
    stacks = own(with_stacks(run("diff", a1, a2, "--to", far, "-c", "leaked", "-f", "json"))["stacks"])
    assert (stacks["keep"]["change"], stacks["keep"]["within_spread"]) == (7500, False)


def test_check_says_yes_no_and_cannot_tell(run, recordings, scratch):
    old, new = recordings
    assert "all 2 budgets met" in run("check", old, "--max-leaked", "1000", "--max-leaked-blocks", "10")
    broken = run("check", new, "--max-leaked", "0", "--junit", scratch / "heap.xml", status=1)
    assert "4.0 KiB of it from main" in broken and "keep" in broken
    suite = xml.etree.ElementTree.parse(scratch / "heap.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite.find("testcase/failure") is not None
    run("check", scratch / "no-such.hg", "--max-peak", "1", status=2)
    assert "too few snapshots" in run("check", new, "--max-growth", "1KiB/s", status=2)


def test_check_counts_only_the_sites_it_is_told_to(run, recordings):
    run("check", recordings[1], "--max-leaked", "1700", "--site", "^keep$")
    run("check", recordings[1], "--max-leaked", "1699", "--site", "^keep$", status=1)


def test_check_against_a_baseline(run, recordings):
    old, new = recordings
    run("check", old, "--baseline", old)
    result = json.loads(run("check", new, "--baseline", old, "--tolerance", "1%", "--format", "json", status=1))
    rows = {row["measure"]: row for row in result["budgets"]}
    assert (rows["leaked"]["value"], rows["leaked"]["baseline"], rows["leaked"]["limit"]) == (5796, 1000, 1010)
    assert rows["leaked"]["responsible_sites"][0]["value"] == 4096
    assert rows["calls"]["verdict"] == "ok", "8 calls more of 1,000 are within one per cent"
    assert run("check", new, "--baseline", old, "--format", "github", status=1).startswith("::error file=new/app.c,line=36,title=heapgauge::app")


def test_record_and_check_in_one_step(heapgauge, clean_env, scratch, program):
    budgets = scratch / "budgets.ini"
    tests = [program("parse_test", 10), program("http_test", 3)]
    command = ["sh", "-c", "; ".join(str(t) for t in tests)]

    def step(text):
        budgets.write_text(text)
        argv = [heapgauge, "record", "-q", "-o", scratch / "suite.hg", "--check", budgets, "--", *command]
        return subprocess.run(argv, env=clean_env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)

    kept = step("[parse_test]\nmax-leaked = 1000\n[*_test]\nmax-leaked-blocks = 10\n")
    assert kept.returncode == 0, kept.stderr
    assert "all 3 budgets met" in kept.stderr
    broken = step("[parse_test]\nmax-leaked = 1000\n[http_test]\nmax-leaked = 0\n")
    assert broken.returncode == 1
    assert "http_test  not freed at exit 300 B > 0 B" in broken.stderr
    wrong = step("[parse_test]\nmax-leeked = 1000\n")
    assert wrong.returncode == 2 and "did you mean 'max-leaked'" in wrong.stderr and "budgets.ini:2" in wrong.stderr


def test_merge_keeps_every_number(run, report_json, recordings, scratch):
    run("merge", *recordings, "-o", scratch / "both.hg")
    parts = [report_json(path)["processes"][0] for path in recordings]
    merged = report_json(scratch / "both.hg")
    assert [p["calls"] for p in merged["processes"]] == [p["calls"] for p in parts]
    assert merged["processes"][1]["started_offset_ns"] > merged["processes"][0]["started_offset_ns"]
    sites = report_json(scratch / "both.hg", "sites")["sites"]
    assert len(sites) == sum(len(report_json(path, "sites")["sites"]) for path in recordings)
    run("merge", recordings[0], status=2)
