# SPDX-License-Identifier: Apache-2.0
"""A program that samples itself for ever within 16 MiB. Once the budget is used up, new stacks are counted as [other]: totals stay
right to the byte, stacks that are known keep their numbers, and whoever reads the profile meanwhile, or after a SIGKILL, finds it
whole. (R3, R17: an earlier recorder moved cold stacks out instead, and lost updates of other threads.)

The blocks are larger than the interval: each is a sample and stands for itself, so that everything is known to the byte."""

import collections
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from alone import file_of, folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c
from conftest import ROOT

INCLUDE = ROOT / "include"

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
LIMIT_SECONDS = 900 if LONG else 120
BUDGET = 16 << 20
BLOCK = 100_000
# A new stack every second for thirty days.
MONTH = 30 * 86400
# What a full budget may count; the rest would mean that something was lost.
# Lifetimes and sizes give way to records. On a machine that is busy enough the owner of a lock may be without a processor for longer
# than anybody waits; what that may cost is in the numbers, which are compared.
EXPECTED = {"unsited_calls", "memory_failures", "lost_details", "clock_stopped_ms", "lock_timeouts"}


def environment(build, env, folder, **more):
    own = {"HEAPGAUGE_MODE": "sample", "HEAPGAUGE_INTERVAL": "64KiB", "HEAPGAUGE_BUDGET": "16MiB"}
    return preloaded(build, env, folder, **own, **more)


def path_of(site):
    """The way to a block, outermost call first; None: not one of the program's."""
    steps = [frame["function"][-1] for frame in site["stack"] if (frame["function"] or "").startswith("step_")]
    return "".join(reversed(steps)) if len(steps) == 16 else None


def is_other(site):
    return (site["stack"][0]["function"] or "").startswith("[other")


def sums(sites):
    sites, keys = list(sites), ("calls", "total_bytes", "frees", "freed_bytes")
    return {key: sum(site[key] for site in sites) for key in keys}


def live(sites):
    total = sums(sites)
    return total["calls"] - total["frees"], total["total_bytes"] - total["freed_bytes"]


def start(build, env, folder, target, blocks, threads, *more):
    return subprocess.Popen(
        [target("new_stacks"), str(blocks), str(threads), *more],
        env=environment(build, env, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )


def taken(path):
    """Bytes of memory that the sparse file takes."""
    return os.stat(path).st_blocks * 512


def kept_stacks_hold_only_what_is_alive(sites, alive):
    """Every stack that is known holds as many blocks as the program says, or fewer: the others are in [other]."""
    held = collections.Counter()
    for site in sites:
        blocks, size = live([site])
        assert size == blocks * BLOCK or path_of(site) is None, site
        if path_of(site):
            held[path_of(site)] += blocks
    assert all(0 <= held[path] <= alive[path] for path in held)
    other, _ = live(site for site in sites if is_other(site))
    assert 0 <= sum(alive.values()) - sum(held.values()) - other <= 0


@pytest.mark.parametrize("threads", [1, 4])
def test_ever_new_stacks_stay_within_the_budget_and_the_numbers_right(threads, build, clean_env, target, report_json):
    blocks = MONTH if LONG else 60_000
    with folder_on_tmpfs() as folder:
        program = start(build, clean_env, folder, target, blocks, threads, "wait")
        assert program.stdout.readline() == "begun\n"
        path, most, done = file_of(folder, program.pid), 0, threading.Event()

        def watch():
            nonlocal most
            while not done.is_set():
                most = max(most, taken(path))
                time.sleep(0.002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        lines = []
        while (line := program.stdout.readline()) not in ("end\n", ""):
            lines.append(line)
        done.set()
        watcher.join(timeout=LIMIT_SECONDS)
        sites = report_json(path, "sites")["sites"]
        process = report_json(path)["processes"][0]
        program.communicate(timeout=LIMIT_SECONDS)
        assert program.returncode == 0
    assert most <= BUDGET
    assert lines[0] == f"blocks {blocks} of {BLOCK}\n"
    kept_stacks_hold_only_what_is_alive(sites, collections.Counter(line.split()[1] for line in lines[1:]))
    total = sums(site for site in sites if path_of(site) or is_other(site))
    strange = [site for site in sites if not path_of(site) and not is_other(site)]
    # A thread that waits in vain for a lock, since its owner has no CPU, loses the sample and counts it.
    recorded = blocks - process["health"].get("lost_samples", 0)
    assert (total["calls"], total["total_bytes"]) == (recorded, recorded * BLOCK), (process["health"], strange)
    assert process["health"]["unsited_calls"] > 0
    late = {"lost_samples"} if process["health"].get("lock_timeouts") else set()
    assert {key for key, value in process["health"].items() if value} <= EXPECTED | late
    known = [site for site in sites if path_of(site)]
    print(f"{threads} threads: {len(known)} stacks kept, {sums(known)['calls'] / blocks:.1%} of the calls, {most} bytes at most")
    assert len(known) > 5_000


# Thousands of stacks, then one that comes again and again.
REPEATED = r"""
#include <stdlib.h>
static void *volatile sink;
__attribute__((noinline)) static void left(unsigned bits, int depth);
__attribute__((noinline)) static void right(unsigned bits, int depth) { if (depth == 0) free(sink = malloc(16)); else if (bits & 1) left(bits >> 1, depth - 1); else right(bits >> 1, depth - 1); __asm__ volatile(""); }
static void left(unsigned bits, int depth) { if (depth == 0) free(sink = malloc(16)); else if (bits & 1) left(bits >> 1, depth - 1); else right(bits >> 1, depth - 1); __asm__ volatile(""); }
__attribute__((noinline)) static void again(void) { for (int i = 0; i < 100000; i++) free(sink = malloc(32)); }
int main(void) { for (unsigned i = 0; i < 60000; i++) left(i, 20); again(); return 0; }
"""


def test_every_call_without_its_stack_is_counted(record, report_json, scratch):
    run = record([compile_c(scratch, "repeated", REPEATED)], "--budget", "4MiB")
    others = sum(site["calls"] for site in report_json(run.path, "sites")["sites"] if is_other(site))
    process = report_json(run.path)["processes"][0]
    assert process["calls"] == 160_000 and others > 100_000
    assert process["health"]["unsited_calls"] == others


def test_readers_meanwhile_find_it_whole(build, clean_env, target, report_json):
    with folder_on_tmpfs() as folder:
        program = start(build, clean_env, folder, target, 10**9, 2)
        assert program.stdout.readline() == "begun\n"
        calls = []
        try:
            while taken(file_of(folder, program.pid)) < BUDGET // 2:
                time.sleep(0.01)
            for _ in range(12 if LONG else 2):
                for source in (f"--pid={program.pid}", file_of(folder, program.pid)):
                    sites = [site for site in report_json(source, "sites")["sites"] if path_of(site) or is_other(site)]
                    calls.append(sums(sites)["calls"])
                    # Two threads: each may be between two steps. [other] goes on while it is copied, frees first.
                    assert 0 <= live(site for site in sites if path_of(site))[0] <= 1000 + 16
                    assert live(sites)[0] > 0
        finally:
            program.kill()
            program.communicate(timeout=LIMIT_SECONDS)
        assert calls == sorted(calls) and calls[-1] > calls[0]


def test_a_killed_one_leaves_a_whole_profile(build, clean_env, target, report_json):
    dice = random.Random(4711)
    with folder_on_tmpfs() as folder:
        for _ in range(40 if LONG else 8):
            program = start(build, clean_env, folder, target, 10**9, 2)
            assert program.stdout.readline() == "begun\n"
            path = file_of(folder, program.pid)
            while taken(path) < BUDGET * (0.3 + dice.random() * 0.6):
                time.sleep(0.001)
            os.kill(program.pid, signal.SIGKILL)
            program.communicate(timeout=LIMIT_SECONDS)
            sites = report_json(path, "sites")["sites"]
            assert live(site for site in sites if path_of(site) or is_other(site))[0] in range(999, 1003)
            assert all(site["total_bytes"] == site["calls"] * BLOCK for site in sites if path_of(site))
            path.unlink()


# Ever new stacks, as in new_stacks.c, for programs that do something else beside it.
NEW_STACKS = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define KEEP(p) __asm__ volatile("" : "+r"(p))
static void *go_on(uint64_t path, int depth);
static volatile char been[2];
#define STEP(name, n) __attribute__((noinline)) static void *name(uint64_t path, int depth) \\
    { been[n] = 1; void *block = go_on(path, depth); KEEP(block); return block; }
STEP(step_a, 0)
STEP(step_b, 1)
__attribute__((noinline)) static void *go_on(uint64_t path, int depth)
{
    void *block = depth == 32 ? malloc(100000) : path >> depth & 1 ? step_a(path, depth + 1) : step_b(path, depth + 1);
    KEEP(block);
    return block;
}
static void fill_budget(long blocks)
{
    static uint64_t random = 88172645463325252u;
    for (long i = 0; i < blocks; i++) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        free(go_on(random, 0));
    }
}
"""

FILTERED = NEW_STACKS + """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int main(void)
{
    const int killed[] = { SYS_mmap, SYS_munmap, SYS_madvise, SYS_rt_sigprocmask };
    struct sock_filter filter[2 + 2 * 4] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    for (int i = 0; i < 4; i++) {
        filter[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)killed[i], 0, 1);
        filter[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    filter[9] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { 10, filter };
    free(malloc(100000));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        return 1;
    fill_budget(60000);
    write(1, "fine", 4);
    return 0;
}
"""


def test_a_filter_that_kills_is_never_met(scratch, build, clean_env):
    """R4: nothing that a full budget leads to asks the kernel for what the program has forbidden."""
    program = compile_c(scratch, "filtered", FILTERED, "-fno-optimize-sibling-calls")
    with folder_on_tmpfs() as folder:
        done = subprocess.run([program], env=environment(build, clean_env, folder), capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (done.returncode, done.stdout) == (0, "fine")


TAGS_AFTERWARDS = NEW_STACKS + """
#include <heapgauge/heapgauge.h>
int main(void)
{
    fill_budget(60000);
    hg_mode(HG_TAGS);
    for (int i = 0; i < 1000; i++) {
        void *block = malloc(777);
        KEEP(block);
    }
    return 0;
}
"""


def test_blocks_without_a_stack_stay_so(scratch, build, clean_env, report_json):
    """R8: blocks of mode tags appear under no stack, however full the budget is."""
    program = compile_c(scratch, "tags_afterwards", TAGS_AFTERWARDS, f"-I{INCLUDE}", "-fno-optimize-sibling-calls")
    with folder_on_tmpfs() as folder:
        subprocess.run([program], env=environment(build, clean_env, folder, HEAPGAUGE_KEEP="1"), check=True, timeout=WAIT_SECONDS)
        (path,) = folder.glob("*.live")
        sites = report_json(path, "sites")["sites"]
    (tagged,) = [site for site in sites if site["calls"] - site["frees"] >= 900]
    assert tagged["stack"][0]["function"].startswith("[") and len(tagged["stack"]) == 1
    assert live([tagged])[1] == live([tagged])[0] * 777


POOL_IN_A_CHILD = NEW_STACKS + """
#include <heapgauge/heapgauge.h>
#include <sys/wait.h>
static char arena[100 * 100000];
int main(void)
{
    for (int i = 0; i < 100; i++)
        hg_pool_new("of the parent");
    if (fork() != 0)
        return wait(NULL) < 0;
    hg_pool pool = hg_pool_new("mine");
    fill_budget(30000);
    for (int i = 0; i < 100; i++)
        hg_pool_alloc(pool, arena + i * 100000, 100000);
    fill_budget(60000);
    for (int i = 0; i < 100; i++)
        hg_pool_free(pool, arena + i * 100000);
    _exit(0);
}
"""


def test_pools_of_a_child_end_in_order(scratch, build, clean_env, report_json):
    """R9: what a forked child takes from a pool and gives back is gone, also where the budget is full."""
    program = compile_c(scratch, "pool_in_a_child", POOL_IN_A_CHILD, f"-I{INCLUDE}", "-fno-optimize-sibling-calls")
    with folder_on_tmpfs() as folder:
        subprocess.run([program], env=environment(build, clean_env, folder, HEAPGAUGE_KEEP="1"), check=True, timeout=WAIT_SECONDS)
        pools = [site for path in folder.glob("*.live") for site in report_json(path, "sites", "--kind", "pool")["sites"]]
    assert sums(pools)["calls"] == 100 and live(pools) == (0, 0)
