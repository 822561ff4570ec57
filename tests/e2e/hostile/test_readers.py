# SPDX-License-Identifier: Apache-2.0
"""Twenty who look at a process at once neither stop nor slow it: it does the same instructions, and never waits for them."""

import concurrent.futures
import contextlib
import pathlib
import re
import select
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, wait_for
from serving import Server
from terminal import Terminal

READERS = 20
TOOL = pathlib.Path("/usr/libexec/valgrind/cachegrind-amd64-linux")

# Says its pid, waits for a byte, allocates and frees ROUNDS times from 64 places, and says what it has counted: blocks held,
# how often it had to wait since the byte came, and how often it was stopped by a tracer. Then waits for the next byte.
WORKER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
static void *held[4096];
#define PLACE(n) __attribute__((noinline)) static void *place##n(unsigned i) { void *p = malloc(16 + i % 256); __asm__(""); return p; }
PLACE(0) PLACE(1) PLACE(2) PLACE(3) PLACE(4) PLACE(5) PLACE(6) PLACE(7)
static void *(*const places[])(unsigned) = { place0, place1, place2, place3, place4, place5, place6, place7 };
__attribute__((noinline)) static void *deep(unsigned n, unsigned i) { void *p = n ? deep(n - 1, i) : places[i % 8](i); __asm__(""); return p; }
static long waits(void) { struct rusage u; getrusage(RUSAGE_SELF, &u); return u.ru_nvcsw; }
int main(int argc, char **argv)
{
	unsigned rounds = (unsigned)atoi(argv[1]), state = 1;
	char line[64], byte;
	alarm(900);
	write(1, line, (size_t)sprintf(line, "%d\n", getpid()));
	read(0, &byte, 1);
	long before = waits();
	unsigned live = 0;
	for (unsigned i = 0; i < rounds; i++) {
		state = state * 1664525 + 1013904223;
		void **place = &held[state >> 20];
		if (*place) { free(*place); *place = NULL; live--; } else { *place = deep(state >> 8 & 7, i); live++; }
	}
	long waited = waits() - before;
	write(1, line, (size_t)sprintf(line, "live %u waits %ld\n", live, waited));
	read(0, &byte, 1);
	_exit(0);
}
"""


class Top:
    """heapgauge top in a terminal of its own."""

    def __init__(self, heapgauge, env, pid):
        argv = [heapgauge, "top", str(pid), "--no-symbols", "--every", "0.1"]
        self.terminal = Terminal(argv, env | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}, "/")

    def begin(self):
        self.terminal.read_until(lambda: b"RSS" in self.terminal.shown)

    def look(self):
        before = len(self.terminal.shown)
        self.terminal.read_until(lambda: len(self.terminal.shown) > before)

    def end(self):
        self.terminal.press(b"q")
        assert self.terminal.end().returncode == 0


class View:
    """heapgauge view --pid, and who asks it for the newest state, over HTTP as the page does."""

    def __init__(self, heapgauge, env, pid):
        self.server = Server(heapgauge, "--pid", pid, "--no-open", "--no-symbols", env=env, cwd="/")

    def begin(self):
        self.reading = self.server.get("/api/live").json()["reading"]

    def look(self):
        # The first newer state may be one of when it had just begun, and held a block or two.
        rows = wait_for(lambda: (rows := self.newer_rows()) and len(rows) == 5 and rows, "five places in a newer state")
        assert rows[0]["calls"] > 0

    def newer_rows(self):
        state = self.server.get("/api/live").json()
        if state["reading"] <= self.reading:
            return None
        self.reading = state["reading"]
        return self.server.result(("view", "sites"), ("cost", "live"), ("limit", "5"), ("reading", self.reading)).json()["sites"]

    def end(self):
        assert self.server.end()[0] == 0


class Report:
    """heapgauge report --pid, once for each look."""

    def __init__(self, heapgauge, env, pid):
        self.argv, self.env = [heapgauge, "report", "--pid", str(pid), "--view", "sites", "--no-symbols", "--format", "json"], env

    def begin(self):
        self.look()

    def look(self):
        done = subprocess.run(self.argv, env=self.env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == 0 and '"sites"' in done.stdout, done.stderr

    def end(self):
        pass


KINDS = (Top, View, Report)


@contextlib.contextmanager
def looking(heapgauge, env, pid, count):
    """That many readers of all kinds, all of which have looked at the process."""
    readers = []
    try:
        for i in range(count):
            readers.append(KINDS[i % len(KINDS)](heapgauge, env, pid))
        for reader in readers:
            reader.begin()
        yield readers
    finally:
        for reader in readers:
            reader.end()


def look_all(readers):
    """All at once: how many have seen something new from now on; all, or it fails."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(readers))) as pool:
        return len([done.result() for done in [pool.submit(reader.look) for reader in readers]])


def tracer(pid):
    return int(re.search(r"^TracerPid:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def work(argv, env, heapgauge, readers, scratch):
    """Runs the worker with that many readers: what it said in the end, and how many of them saw it work."""
    with subprocess.Popen(argv, env=env, cwd=scratch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        pid = int(run.stdout.readline())
        wait_for(lambda: "heapgauge-profile" in pathlib.Path(f"/proc/{pid}/maps").read_text(), "the recorder")
        with looking(heapgauge, env, pid, readers) as looked:
            run.stdin.write("\n")
            run.stdin.flush()
            saw = look_all(looked)
            assert not readers or not select.select([run.stdout], [], [], 0)[0], "it was done before all had looked"
            assert tracer(pid) == 0
            said = run.stdout.readline()
        run.stdin.write("\n")
        run.stdin.close()
        rest = run.stdout.read()
        assert run.wait(WAIT_SECONDS) == 0
    return said, saw, rest


def test_a_process_does_the_same_and_does_not_wait(heapgauge, scratch, clean_env):
    worker = compile_c(scratch, "worker", WORKER)
    argv = [heapgauge, "record", "-q", "-o", scratch / "w.hg", "--", worker, "30000000"]
    alone, _, _ = work(argv, clean_env, heapgauge, 0, scratch)
    watched, saw, _ = work(argv, clean_env, heapgauge, READERS, scratch)
    assert saw == READERS, "all of them looked while it worked"
    assert alone.split()[:2] == watched.split()[:2], "the same work"
    # It has nothing to wait for but memory, which it gets from the kernel a few dozen times.
    assert int(watched.split()[3]) <= int(alone.split()[3]) + 20


@pytest.mark.skipif(not TOOL.exists(), reason="needs valgrind")
def test_a_process_executes_the_same_instructions(heapgauge, build, scratch, clean_env):
    """Counted by cachegrind, under a collector whose clock stands still: alone, two runs count the same."""
    worker = compile_c(scratch, "worker", WORKER)
    collector = [build / "tests" / "cost-collector", build / "libheapgauge.so"]
    if not collector[0].exists():
        pytest.skip("the collector of tests/cost is not built by this compiler")
    env = clean_env | {"VALGRIND_LIB": str(TOOL.parent), "VALGRIND_LAUNCHER": "/usr/bin/valgrind"}
    counts = []
    for readers in (0, READERS):
        output = scratch / f"counts{readers}"
        tool = [TOOL, "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={output}"]
        _, saw, rest = work([*collector, *tool, worker, "3000000"], env, heapgauge, readers, scratch)
        assert saw == readers and re.search(r"^calls 150\d{4} ", rest, re.M), rest
        counts.append(int(re.search(r"^summary: (\d+)", output.read_text(), re.M)[1]))
    assert counts[0] > 10_000_000
    # printf of a pid with more digits, or of more waits, is a handful.
    assert abs(counts[0] - counts[1]) < 2000, counts
