# SPDX-License-Identifier: Apache-2.0
"""Moments that have a name: asked for by the program, by a person, or by a condition."""

import json
import pathlib
import re
import signal
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS, compile_c, losses, wait_for
from running import until_snapshot

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"

# memtrail's own example (tests/snapshot.cpp), with a second snapshot in between.
MEMTRAIL = """
#include <heapgauge/heapgauge.h>
#include <errno.h>
#include <stdlib.h>
static void *kept[64];
__attribute__((noinline)) static void *leak(size_t n) { return malloc(n); }
__attribute__((noinline)) static void *hold(size_t n) { return malloc(n); }
int main(void) {
    errno = 5;
    kept[0] = hold(1024);
    hg_snapshot("start");
    kept[1] = leak(100);
    hg_mark("half way");
    hg_snapshot("middle");
    free(kept[0]);
    kept[2] = leak(200);
    kept[3] = leak(300);
    hg_snapshot("end of work");
    for (int i = 0; i < 40; i++) {
        kept[4 + i] = hold(10);
        hg_snapshot("loop");
    }
    return errno == 5 ? 0 : 1;
}
"""


def live_by_function(report_json, path, *question):
    sites = report_json(path, "sites", "--cost", "live", *question)["sites"]
    held = {}
    for site in sites:
        name = site["stack"][0]["function"]
        held[name] = held.get(name, 0) + site["live_bytes"]
    return {name: size for name, size in held.items() if size}


def test_a_snapshot_is_what_was_live_when_it_was_asked_for(scratch, record, report_json):
    """43 of them within a fraction of a millisecond, each exact."""
    program = compile_c(scratch, "trail", MEMTRAIL, f"-I{INCLUDE}")
    assert subprocess.run([program], check=False).returncode == 0
    run = record([program])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "snapshots")["snapshots"]
    named = [row for row in rows if row["kind"] == "snapshot"]
    assert [row["name"] for row in named] == ["start", "middle", "end of work"] + ["loop"] * 40
    assert [row["live_bytes"] for row in named] == [1024, 1124, 600] + [600 + 10 * (i + 1) for i in range(40)]
    assert [row["live_blocks"] for row in named[:3]] == [1, 2, 3]
    assert [row["change_bytes"] for row in named[:4]] == [None, 100, -524, 10]
    assert [row["since_first_bytes"] for row in named[:4]] == [None, 100, -424, -414]
    marks = [row for row in rows if row["kind"] == "mark"]
    assert [row["name"] for row in marks] == ["half way"]
    times = [row["at_ns"] for row in rows]
    assert times == sorted(times)
    assert not losses(report_json(run.path)["processes"][0])

    at = lambda *question: live_by_function(report_json, run.path, *question)
    assert at("--at", "snap:start") == {"hold": 1024}
    assert at("--at", "snap:middle") == {"hold": 1024, "leak": 100}
    assert at("--at", "snap:end of work", "--minus", "snap:start") == {"hold": -1024, "leak": 600}
    assert at("--at", "snap:loop#3", "--minus", "snap:end of work") == {"hold": 30}
    assert at("--at", "snap:loop") == {"hold": 400, "leak": 600}
    number = named[1]["snapshot"]
    assert at("--at", f"snap:{number}") == at("--at", "snap:middle")


# The same moments in both runs, after as many others as it is told; none at all if that is negative.
PAIRED = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *kept[64];
__attribute__((noinline)) static void *hold(size_t n) { return malloc(n); }
int main(int argc, char **argv) {
    int others = atoi(argv[1]);
    for (int i = 0; i < others; i++)
        hg_snapshot("warm up");
    for (int i = 0; i < 5; i++) {
        kept[i] = hold(1000);
        if (others >= 0)
            hg_snapshot("round");
    }
    kept[5] = hold(50000);
    if (others >= 0)
        hg_snapshot("loaded");
    return argc == 0;
}
"""


def test_a_comparison_pairs_numbered_snapshots_by_name_or_else_by_time(scratch, record, report_json, heapgauge, clean_env):
    program = compile_c(scratch, "paired", PAIRED, f"-I{INCLUDE}")
    old, new, bare = (record([program, others]).path for others in ("3", "0", "-1"))
    rows = [row for row in report_json(new, "snapshots")["snapshots"] if row["kind"] == "snapshot"]
    third, loaded = (row["snapshot"] for row in (rows[2], rows[5]))
    assert (rows[2]["name"], rows[5]["name"]) == ("round", "loaded")

    def compared(before, *question):
        command = [heapgauge, "diff", before, new, "--view", "functions", "--cost", "live", "--format", "json", *question]
        result = json.loads(subprocess.check_output(command, env=clean_env))
        return result["moment"], {row["function"]: row["live_bytes"] for row in result["functions"] if row["live_bytes"]}

    for number, name in (third, "round#3"), (loaded, "loaded"):
        moment, changed = compared(old, "--at", f"snap:{number}")
        assert changed == {} and moment.startswith(f"at snapshot {number}, ") and f"; before: at the snapshot '{name}', " in moment
    assert compared(old, "--at", f"snap:{loaded}", "--minus", f"snap:{third}")[1] == {}
    assert "; before: at " in compared(bare, "--at", f"snap:{loaded}")[0]
    missing = subprocess.run([heapgauge, "diff", old, new, "--at", "snap:99"], env=clean_env, capture_output=True, text=True)
    assert missing.returncode == 1 and "snap:99 does not exist" in missing.stderr


def test_a_name_that_is_not_there_is_said(scratch, record, heapgauge):
    run = record([compile_c(scratch, "trail", MEMTRAIL, f"-I{INCLUDE}")])
    done = subprocess.run([heapgauge, "report", run.path, "--at", "snap:nowhere"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "no snapshot is named 'nowhere'" in done.stderr


def test_what_the_limit_leaves_out_is_counted_in_words(scratch, record, heapgauge):
    """H12: "79snapshots"."""
    run = record([compile_c(scratch, "trail", MEMTRAIL, f"-I{INCLUDE}")])
    done = subprocess.run([heapgauge, "report", run.path, "--view", "snapshots", "--limit", "1"], capture_output=True, text=True, check=True)
    assert re.search(r"^  \.\.\. \d+ more snapshots", done.stdout, re.M), done.stdout


THREADS = """
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdlib.h>
static void *volatile sink;
static volatile int stop;
static void *churn(void *unused) {
    while (!stop) {
        void *p = malloc(64);
        sink = p;
        free(p);
    }
    return unused;
}
__attribute__((noinline)) static void *hold(size_t n) { return malloc(n); }
int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, churn, 0);
    for (int i = 0; i < 500; i++) {
        sink = hold(1000);
        hg_snapshot("round");
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""


def test_snapshots_while_other_threads_churn(scratch, record, report_json):
    run = record([compile_c(scratch, "threads", THREADS, "-pthread", f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "snapshots")["snapshots"]
    assert len(rows) == 500
    for wanted in (1, 17, 250, 500):
        held = live_by_function(report_json, run.path, "--at", f"snap:round#{wanted}", "--focus", "hold")
        assert held == {"hold": 1000 * wanted}
    # The others go on while it is taken.
    for number, row in enumerate(rows):
        assert abs(row["live_bytes"] - 1000 * (number + 1) - (rows[0]["live_bytes"] - 1000)) <= 200 * 64


WAITS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    static void *volatile kept[1000];
    char go;
    for (int i = 0; i < 100; i++)
        kept[i] = malloc(1 << 20);
    write(1, "grown\\n", 6);
    read(0, &go, 1);
    for (int i = 0; i < 100; i++)
        free(kept[i]);
    write(1, "freed\\n", 6);
    read(0, &go, 1);
    for (int i = 0; i < 100; i++)
        kept[i] = malloc(1 << 20);
    write(1, "again\\n", 6);
    read(0, &go, 1);
    return 0;
}
"""


@pytest.fixture
def waiting(heapgauge, scratch, clean_env):
    """waiting(*options): a recorded program that grows, and goes on by .step(); .finish() gives the recording."""
    started = []

    class Run:
        def __init__(self, *options):
            self.path = scratch / "waits.hg"
            self.process = subprocess.Popen(
                [heapgauge, "record", "-q", "-o", self.path, *options, "--", compile_c(scratch, "waits", WAITS)],
                env=clean_env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            started.append(self.process)
            assert self.process.stdout.readline() == b"grown\n"

        def program(self):
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            return int(wait_for(lambda: children.read_text().split(), "the program")[0])

        def step(self):
            time.sleep(0.15)
            self.process.stdin.write(b"x")
            self.process.stdin.flush()
            return self.process.stdout.readline()

        def finish(self):
            while self.step():
                pass
            assert self.process.wait(timeout=WAIT_SECONDS) == 0
            return self.path

    yield Run
    for process in started:
        process.kill()
        process.wait()


def names_of(report_json, path):
    return [row["name"] for row in report_json(path, "snapshots")["snapshots"]]


def test_conditions_take_snapshots_each_time_they_come_true(waiting, report_json):
    run = waiting("--on", "live>50MiB", "--on", "calls>60", "--on", "rss>99%", "--every", "100ms")
    path = run.finish()
    rows = report_json(path, "snapshots")["snapshots"]
    names = [row["name"] for row in rows]
    assert names.count("live>50MiB") == 2, "passed, left, passed again"
    assert all(row["live_bytes"] > 50 << 20 for row in rows if row["name"] == "live>50MiB")
    assert 1 <= names.count("calls>60") <= 3
    assert names.count("rss>99%") == 0
    assert names.count("every=100ms") >= 3
    assert sum(site["live_bytes"] for site in report_json(path, "sites", "--at", "snap:live>50MiB", "--cost", "live")["sites"]) > 50 << 20


def test_a_signal_to_heapgauge_takes_one_if_asked(waiting, report_json):
    run = waiting("--on", "signal=USR2")
    run.process.send_signal(signal.SIGUSR2)
    run.process.send_signal(signal.SIGUSR2)
    path = run.finish()
    # The second may come while the first is pending, and then they are one.
    assert names_of(report_json, path) in (["signal=USR2"], ["signal=USR2"] * 2)


def test_snap_asks_the_collector(waiting, heapgauge, report_json):
    run = waiting()
    pid = str(run.program())
    subprocess.run([heapgauge, "snap", pid, "--name", "full"], check=True)
    until_snapshot()
    assert run.step() == b"freed\n"
    subprocess.run([heapgauge, "snap", pid], check=True)
    path = run.finish()
    rows = report_json(path, "snapshots")["snapshots"]
    assert [row["name"] for row in rows] == ["full", "snap"]
    assert [row["live_bytes"] // (100 << 20) for row in rows] == [1, 0]
    done = subprocess.run([heapgauge, "snap", pid], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and pid in done.stderr
    done = subprocess.run([heapgauge, "snap", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("heapgauge: ")


@pytest.mark.parametrize("words", [["--on", "rss>"], ["--on", "cgroup>3GiB"], ["--on", "signal=KILL"], ["--every", "soon"]])
def test_conditions_that_are_none_are_refused(words, heapgauge):
    done = subprocess.run([heapgauge, "record", *words, "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words[1].split("=")[-1] in done.stderr
