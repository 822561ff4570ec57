# SPDX-License-Identifier: Apache-2.0
"""A program that samples itself for ever within 16 MiB: stacks whose blocks are all gone make room for new ones, the numbers
stay right, and whoever reads the profile meanwhile, or after a SIGKILL, finds it whole.

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

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
BUDGET = 16 << 20
BLOCK = 100_000
# A new stack every second for thirty days.
MONTH = 30 * 86400


def environment(build, env, folder, **more):
    own = {"HEAPGAUGE_MODE": "sample", "HEAPGAUGE_INTERVAL": "64KiB", "HEAPGAUGE_BUDGET": "16MiB"}
    return preloaded(build, env, folder, **own, **more)


def path_of(site):
    """The way to a block, outermost call first; None: not one of the program's."""
    steps = [frame["function"][-1] for frame in site["stack"] if (frame["function"] or "").startswith("step_")]
    return "".join(reversed(steps)) if len(steps) == 16 else None


def sums(sites):
    sites, keys = list(sites), ("calls", "total_bytes", "frees", "freed_bytes")
    return {key: sum(site[key] for site in sites) for key in keys}


def start(build, env, folder, target, blocks, threads, *more):
    return subprocess.Popen(
        [target("new_stacks"), str(blocks), str(threads), *more],
        env=environment(build, env, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )


def taken(path):
    """Bytes of memory that the sparse file takes."""
    return os.stat(path).st_blocks * 512


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
        watcher.join()
        assert most <= BUDGET
        sites = report_json(path, "sites")["sites"]
        process = report_json(path)["processes"][0]
        program.communicate()
        assert program.returncode == 0
    assert lines[0] == f"blocks {blocks} of {BLOCK}\n"
    alive = collections.Counter(line.split()[1] for line in lines[1:])
    held = collections.Counter()
    for site in sites:
        if site["calls"] != site["frees"]:
            held[path_of(site)] += site["calls"] - site["frees"]
            assert site["total_bytes"] - site["freed_bytes"] == (site["calls"] - site["frees"]) * BLOCK
    assert held[None] <= 8  # of the C library: the standard output, a thread's start
    del held[None]
    assert held == alive
    ours = [site for site in sites if path_of(site) or site["stack"][0]["function"].startswith("[other")]
    total = sums(ours)
    assert total["calls"] == blocks
    assert total["total_bytes"] == blocks * BLOCK
    assert process["health"]["evicted_stacks"] > blocks // 2
    assert {key for key, value in process["health"].items() if value} <= {"evicted_stacks", "clock_stopped"}
    # What held the peak is still known by its stack.
    peak = [site for site in sites if site["peak_bytes"]]
    assert sum(site["peak_bytes"] for site in peak if path_of(site)) >= 0.99 * sum(site["peak_bytes"] for site in peak)


def test_readers_meanwhile_find_it_whole(build, clean_env, target, report_json):
    with folder_on_tmpfs() as folder:
        program = start(build, clean_env, folder, target, 10**9, 2)
        assert program.stdout.readline() == "begun\n"
        evicted = []
        try:
            while taken(file_of(folder, program.pid)) < BUDGET // 2:
                time.sleep(0.01)
            for _ in range(12):
                for source in (f"--pid={program.pid}", file_of(folder, program.pid)):
                    report = report_json(source)
                    evicted.append(report["processes"][0]["health"].get("evicted_stacks", 0))
                    total = sums(site for site in report_json(source, "sites")["sites"] if path_of(site))
                    # Two threads: each may be between two steps; stacks that are made while it is copied are not seen.
                    assert 0 <= total["calls"] - total["frees"] <= 1000 + 16
        finally:
            program.kill()
            program.communicate()
        assert evicted[-1] > evicted[0]


def test_a_killed_one_leaves_a_whole_profile(build, clean_env, target, report_json):
    dice = random.Random(4711)
    with folder_on_tmpfs() as folder:
        for _ in range(40 if LONG else 8):
            program = start(build, clean_env, folder, target, 10**9, 2)
            assert program.stdout.readline() == "begun\n"
            path = file_of(folder, program.pid)
            time.sleep(0.15 + dice.random() * 0.3)
            os.kill(program.pid, signal.SIGKILL)
            program.communicate()
            sites = report_json(path, "sites")["sites"]
            ours = [site for site in sites if path_of(site)]
            total = sums(ours)
            assert total["calls"] - total["frees"] in range(999, 1003)
            assert all(site["total_bytes"] == site["calls"] * BLOCK for site in ours)
            assert len(ours) > 900
            path.unlink()


def test_no_stack_is_given_up_while_somebody_records(build, clean_env, target, scratch, report_json, heapgauge):
    with folder_on_tmpfs() as folder:
        program = start(build, clean_env, folder, target, 10**9, 1)
        assert program.stdout.readline() == "begun\n"
        try:
            recording = scratch / "attached.hg"
            recorder = subprocess.Popen([heapgauge, "record", "--pid", str(program.pid), "-o", recording, "--quiet"])
            time.sleep(0.5)
            before = report_json(f"--pid={program.pid}")["processes"][0]["health"].get("evicted_stacks", 0)
            time.sleep(1.0)
            after = report_json(f"--pid={program.pid}")["processes"][0]["health"].get("evicted_stacks", 0)
            assert before == after
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait() == 0
            time.sleep(1.0)
            assert report_json(f"--pid={program.pid}")["processes"][0]["health"]["evicted_stacks"] > after
        finally:
            program.kill()
            program.communicate()
