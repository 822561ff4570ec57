# SPDX-License-Identifier: Apache-2.0
"""Pools: what allocators of the program's own give out, beside the memory that they have from malloc."""

import csv
import pathlib
import shutil
import subprocess

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, losses

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"
KEYS = ("calls", "total_bytes", "frees", "live_bytes", "live_blocks", "max_bytes", "pools")


def pools_of(report_json, path, *options):
    return {row["pool"]: row for row in report_json(path, "pools", *options)["pools"]}


def truth_of(run):
    lines = (line[5:].split("|") for line in run.stdout.splitlines() if line.startswith("POOL "))
    return {name: dict(zip(KEYS, map(int, numbers))) for name, *numbers in lines}


@pytest.fixture
def recorded(target, record):
    return record([target("t_pools")])


def test_every_pool_has_what_it_gave_out(recorded, report_json):
    truth = truth_of(recorded)
    assert len(truth) == 8
    pools = pools_of(report_json, recorded.path)
    assert {name: {key: row[key] for key in KEYS} for name, row in pools.items()} == truth
    assert not losses(report_json(recorded.path)["processes"][0])


def test_pools_are_not_added_to_what_they_lie_in(recorded, report_json):
    whole = report_json(recorded.path)["processes"][0]
    arenas = sum(site["calls"] for site in report_json(recorded.path, "sites", "--focus", "arena_open")["sites"])
    assert arenas == 5003
    assert whole["calls"] < 2 * arenas
    heap = report_json(recorded.path, "sites", "--kind", "heap", "--cost", "total")["sites"]
    both = report_json(recorded.path, "sites", "--kind", "all", "--cost", "total")["sites"]
    assert sum(site["calls"] for site in heap) == whole["calls"]
    assert {site["kind"] for site in both} <= {"heap", "mmap"}
    assert sum(site["total_bytes"] for site in both if site["kind"] == "heap") == sum(
        site["total_bytes"] for site in heap
    )


def test_by_pool_and_filter_by_pool(recorded, report_json):
    truth = truth_of(recorded)
    by_pool = report_json(recorded.path, "functions", "--by", "pool", "--cost", "total")["pools"]
    assert {row["pool"]: row["total_bytes"] for row in by_pool} == {
        name: numbers["total_bytes"] for name, numbers in truth.items()
    }
    sites = report_json(recorded.path, "sites", "--pool", "^scoped$")["sites"]
    assert {(site["tag"], site["pool"], site["kind"], site["total_bytes"]) for site in sites} == {
        ("parser", "scoped", "pool", 1000),
        ("parser", "scoped", "pool", 500),
        (None, "scoped", "pool", 250),
    }
    assert all(site["stack"][0]["function"] in ("hg_pool_alloc", "arena_take") for site in sites)
    tagged = report_json(recorded.path, "sites", "--kind", "pool", "--tag", "^parser$")["sites"]
    assert sum(site["total_bytes"] for site in tagged) == 1500
    threads = report_json(recorded.path, "functions", "--by", "thread", "--pool", "slabs", "--cost", "calls")
    assert sum(row["calls"] for row in threads["threads"]) == 16000
    assert all(row["calls"] % 2000 == 0 for row in threads["threads"])


def test_a_resize_is_counted_as_one(recorded, report_json):
    (last,) = (s for s in report_json(recorded.path, "sites", "--pool", "grows")["sites"] if s["live_bytes"])
    moves = [s["realloc"] for s in report_json(recorded.path, "sites", "--pool", "grows")["sites"]]
    assert last["live_bytes"] == 300
    assert sum(m["calls"] for m in moves) == 2
    assert sum(m["moved_calls"] for m in moves) == 1
    assert sum(m["moved_bytes"] for m in moves) == 100


FORK = """
#include <heapgauge/heapgauge.h>
#include <sys/wait.h>
#include <unistd.h>
static char room[100];
int main(void)
{
    hg_pool pool = hg_pool_new("both");
    hg_pool_alloc(pool, room, 10);
    if (fork() == 0) {
        hg_pool_free(pool, room);
        hg_pool_alloc(pool, room + 50, 7);
        hg_pool own = hg_pool_new("child");
        hg_pool_alloc(own, room, 5);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
"""


def test_a_forks_child_goes_on_with_its_parents_pools(scratch, record, report_json):
    run = record([compile_c(scratch, "forks", FORK, f"-I{INCLUDE}")])
    rows = report_json(run.path, "pools")["pools"]
    parent = min(row["pid"] for row in rows)
    got = {(row["pid"] == parent, row["pool"]): (row["live_bytes"], row["pools"]) for row in rows}
    assert got == {(True, "both"): (10, 1), (False, "both"): (7, 0), (False, "child"): (5, 1)}
    assert not any(losses(process) for process in report_json(run.path)["processes"])


def test_sampled_pools_are_estimated(target, record, report_json):
    run = record([target("t_pools")], "--mode", "sample", "--interval", "1000")
    many = pools_of(report_json, run.path)["many"]
    assert abs(many["total_bytes"] - 720000) < 6 * (1000 * 720000) ** 0.5
    assert abs(many["live_bytes"] - 240000) < 6 * (1000 * 240000) ** 0.5
    assert not losses(report_json(run.path)["processes"][0])


NEW_STACKS = """
#include <heapgauge/heapgauge.h>
#include <unistd.h>
enum { BLOCK = 100000, STACKS = 40000 };
static hg_pool kept, passing;
static char *at = (char *)(1L << 40); /* nobody looks there */
static int way;
static void step_0(int depth);
static void step_1(int depth);
__attribute__((noinline)) static void go(int depth)
{
    if (depth == 16) {
        hg_pool_alloc(passing, at, BLOCK);
        hg_pool_free(passing, at);
    } else if (way >> depth & 1)
        step_1(depth + 1);
    else
        step_0(depth + 1);
    __asm__ volatile("");
}
__attribute__((noinline)) static void step_0(int depth) { go(depth); __asm__ volatile(""); }
__attribute__((noinline)) static void step_1(int depth) { go(depth); __asm__ volatile(""); }
int main(void)
{
    kept = hg_pool_new("kept");
    passing = hg_pool_new("passing");
    for (long i = 1; i <= 50; i++)
        hg_pool_alloc(kept, at + i * BLOCK, BLOCK);
    for (way = 0; way < STACKS; way++)
        go(0);
    for (long i = 1; i <= 20; i++)
        hg_pool_free(kept, at + i * BLOCK);
    return 0;
}
"""


def test_pools_stay_right_when_stacks_find_no_memory(scratch, build, clean_env, report_json):
    program = compile_c(scratch, "new_stacks", NEW_STACKS, f"-I{INCLUDE}")
    own = {"HEAPGAUGE_MODE": "sample", "HEAPGAUGE_INTERVAL": "64KiB", "HEAPGAUGE_BUDGET": "16MiB", "HEAPGAUGE_KEEP": "1"}
    with folder_on_tmpfs() as folder:
        subprocess.run([program], env=preloaded(build, clean_env, folder, **own), check=True, timeout=WAIT_SECONDS)
        (live,) = pathlib.Path(folder).glob("*.live")
        pools = pools_of(report_json, live)
        process = report_json(live)["processes"][0]
    assert process["health"]["unsited_calls"] > 1000
    kept, passing = ({key: pools[name][key] for key in KEYS} for name in ("kept", "passing"))
    assert kept == dict(zip(KEYS, (50, 5_000_000, 20, 3_000_000, 30, 5_000_000, 1)))
    # Those without a stack are counted as [other], in their pool.
    assert passing["live_blocks"] == 0 and passing["calls"] == 40000
    assert (passing["max_bytes"], passing["pools"]) == (100_000, 1)


def test_exports_keep_pools_apart(recorded, heapgauge, scratch):
    out = scratch / "run.csv"
    subprocess.run([heapgauge, "export", recorded.path, "-f", "csv", "-o", out, "--kind", "pool"], check=True)
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["kind"] for row in rows} == {"pool"}
    assert {row["pool"] for row in rows} >= {"kept", "slabs"}


STORM = """
#define _GNU_SOURCE
#include <heapgauge/heapgauge.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
static hg_pool inside, kept;
static char *room = (char *)(1L << 40); /* nobody looks there */
static sigjmp_buf back;
static volatile int may_jump;
static volatile unsigned long storms;
static void storm(int signal)
{
    hg_pool_alloc(inside, room, 5);
    hg_pool_free(inside, room);
    hg_pool_reset(inside);
    storms++;
    if (may_jump) {
        may_jump = 0; /* siglongjmp lets the next signal in while it is still on this stack */
        siglongjmp(back, 1);
    }
}
int main(void)
{
    struct itimerval often = { { 0, 200 }, { 0, 200 } };
    inside = hg_pool_new("inside");
    kept = hg_pool_new("kept");
    signal(SIGALRM, storm);
    setitimer(ITIMER_REAL, &often, 0);
    for (long i = 1; i <= 20000 || storms < 200; i++) {
        hg_pool_alloc(kept, room + i * 3, 3);
        hg_pool_free(kept, room + i * 3);
    }
    /* Left by siglongjmp at any instruction: what is lost is counted, nothing hangs. */
    unsigned long until = storms + 300;
    hg_pool torn = hg_pool_new("torn");
    while (storms < until) {
        sigsetjmp(back, 1);
        may_jump = 1;
        for (long i = 1; i < 1000 && storms < until; i++) {
            hg_pool_alloc(torn, room + i * 3, 3);
            hg_pool_free(torn, room + i * 3);
        }
        may_jump = 0;
    }
    may_jump = 0;
    hg_pool_end(torn);
    hg_pool last = hg_pool_new("last");
    hg_pool_alloc(last, room, 11);
    return 0;
}
"""


def test_signals_at_any_instruction(scratch, record, report_json):
    run = record([compile_c(scratch, "storm", STORM, f"-I{INCLUDE}")])
    assert run.returncode == 0
    pools = pools_of(report_json, run.path)
    assert (pools["kept"]["live_bytes"], pools["kept"]["live_blocks"]) == (0, 0)
    assert pools["kept"]["calls"] == pools["kept"]["frees"] >= 20000
    assert pools["last"]["live_bytes"] == 11
    lost = losses(report_json(run.path)["processes"][0])
    # A signal may come inside of longjmp, whose frame by its unwind information lies in the jump buffer, which is no stack.
    assert set(lost) <= {"reentrant_calls", "abandoned_hooks", "repaired_blocks", "unknown_frees", "stacks_stopped"}
    assert lost.get("stacks_stopped", 0) <= 3


RUST = """
fn take(pool: &heapgauge::Pool, room: &[u8], at: usize, bytes: usize) {
    pool.alloc(room[at..].as_ptr(), bytes);
}
fn main() {
    let room = vec![0u8; 1000];
    let kept = heapgauge::Pool::new("kept");
    for i in 0..10 {
        take(&kept, &room, i * 50, 50);
    }
    kept.free(room.as_ptr());
    kept.resize(room[50..].as_ptr(), room[900..].as_ptr(), 70);
    {
        let over = heapgauge::Pool::new("over");
        take(&over, &room, 0, 1000);
        over.reset();
        take(&over, &room, 0, 500);
    }
    std::mem::forget(kept);
}
"""


def test_pools_in_rust(scratch, record, report_json):
    if not shutil.which("rustc"):
        pytest.skip("no rustc")
    crate = [*"rustc --edition=2021 --crate-type=rlib --crate-name=heapgauge -O -Dwarnings -Wmissing_docs".split()]
    subprocess.run([*crate, INCLUDE.parent / "bindings/rust/src/lib.rs"], cwd=scratch, check=True)
    (scratch / "a.rs").write_text(RUST)
    rustc = [*"rustc --edition=2021 -Dwarnings -g --extern heapgauge=libheapgauge.rlib a.rs -o program".split()]
    subprocess.run(rustc, cwd=scratch, check=True)
    subprocess.run([scratch / "program"], check=True)
    pools = pools_of(report_json, record([scratch / "program"]).path)
    got = {name: tuple(row[key] for key in KEYS) for name, row in pools.items()}
    assert got == {"kept": (11, 570, 2, 470, 9, 500, 1), "over": (2, 1500, 2, 0, 0, 1000, 1)}


CXX = """
#include <heapgauge/heapgauge.hpp>
#include <list>
#include <vector>
int main()
{
    std::pmr::monotonic_buffer_resource buffer;
    heapgauge::pool_resource requests{"requests", &buffer};
    auto *numbers = new std::pmr::vector<int>{&requests};
    numbers->reserve(100);
    {
        std::pmr::list<long> list{&requests};
        for (int i = 0; i < 5; i++)
            list.push_back(i);
    }
    {
        heapgauge::pool over{"over"};
        over.alloc(numbers, 10);
        over.resize(numbers, numbers, 20);
        over.alloc(&over, 3);
        over.free(&over);
    }
    hg_snapshot("end");
    return 0;
}
"""


def test_pools_in_cxx(scratch, record, report_json):
    (scratch / "a.cc").write_text(CXX)
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-g"]
    subprocess.run(["g++", *strict, f"-I{INCLUDE}", scratch / "a.cc", "-o", scratch / "program"], check=True)
    subprocess.run([scratch / "program"], check=True)
    run = record([scratch / "program"])
    pools = pools_of(report_json, run.path)
    # The resource ends with main, and its blocks with it.
    assert [pools["requests"][key] for key in ("calls", "total_bytes", "frees", "live_bytes")] == [6, 400 + 5 * 24, 6, 0]
    assert tuple(pools["over"][key] for key in KEYS) == (3, 33, 3, 0, 0, 23, 1)
    at_snapshot = report_json(run.path, "sites", "--pool", "requests", "--at", "snap:end")["sites"]
    assert sum(site["live_bytes"] for site in at_snapshot) == 400
