# SPDX-License-Identifier: Apache-2.0
"""Processes that have run for days or years (R10, R11): their clocks go on, and ages and lifetimes are as exact as in young ones.

A process changes its own time: it makes a time name space and enters it, so that its CLOCK_MONOTONIC is later by as many days."""

import contextlib
import json
import pathlib
import struct
import subprocess

import pytest

from alone import file_of, folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, losses, wait_for
from reading import with_frames
from test_attach import attach  # noqa: F401  (a fixture)

NO_RIGHT = 77
DAYS = (1, 10, 50, 366, 3653)

OLDER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
static void grow_older(long days)
{
	char text[96];
	int bytes = snprintf(text, sizeof text, "monotonic %ld 0\nboottime %ld 0\n", days * 86400, days * 86400);
	if (unshare(CLONE_NEWTIME) < 0) _exit(77);
	int offsets = open("/proc/self/timens_offsets", O_WRONLY);
	int space = open("/proc/self/ns/time_for_children", O_RDONLY);
	if (offsets < 0 || space < 0 || write(offsets, text, bytes) != bytes || setns(space, CLONE_NEWTIME) < 0) _exit(77);
	close(offsets);
	close(space);
}
"""

# older DAYS COMMAND...: runs it so much later.
LATER = OLDER + r"""
int main(int argc, char **argv)
{
	grow_older(atol(argv[1]));
	execvp(argv[2], argv + 2);
	return 99;
}
"""

# Keeps blocks, grows older (or waits for a line with an 'l', while somebody else moves its clock), and has blocks that live 100 ms.
PROGRAM = OLDER + r"""
static void *volatile first[50], *volatile later[50], *volatile brief[100], *volatile ticks[8];
/* Blocks of a page and more are looked up slowly, which moves a clock that the process keeps itself. */
__attribute__((noinline)) static void tick(void) { for (int i = 0; i < 8; i++) { ticks[i] = malloc(9000); free(ticks[i]); } }
__attribute__((noinline)) static void keep_first(void) { for (int i = 0; i < 50; i++) first[i] = malloc(300); __asm__(""); }
__attribute__((noinline)) static void keep_later(void) { for (int i = 0; i < 50; i++) later[i] = malloc(300); __asm__(""); }
__attribute__((noinline)) static void live_briefly(void)
{
	static volatile size_t sizes[] = { 5000, 100 }; /* one call: compilers make two of a condition */
	for (int round = 0; round < 5; round++) {
		tick();
		for (int i = 0; i < 100; i++) brief[i] = malloc(sizes[i % 2]);
		usleep(100000);
		tick();
		for (int i = 0; i < 100; i++) free(brief[i]);
	}
	__asm__("");
}
int main(int argc, char **argv)
{
	static char in[64], out[64];
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	alarm(900);
	keep_first();
	printf("%d\n", getpid());
	fflush(stdout);
	if (argc > 1) grow_older(atol(argv[1]));
	else if (getchar() != 'l') return 0;
	live_briefly();
	tick();
	keep_later();
	usleep(100000);
	tick();
	printf("done\n");
	fflush(stdout);
	while (getchar() != 'q');
	return 0;
}
"""


@pytest.fixture
def report(heapgauge, clean_env):
    def run(path, view):
        done = subprocess.run(
            [heapgauge, "report", path, "--view", view, "--format", "json"],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
        assert done.returncode == 0, done.stderr
        return with_frames(json.loads(done.stdout))

    return run


@contextlib.contextmanager
def start(argv, env):
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def read_line(run):
    line = run.stdout.readline()
    if not line and run.wait(WAIT_SECONDS) == NO_RIGHT:
        pytest.skip("a time name space cannot be made here (root, Linux 5.6)")
    assert line, run.stderr.read()
    return line


def clock_ms(pid):
    """What the clock of a process shows that keeps its profile in memory of its own: its control page is behind all of it."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    end = max(int(line.split("-")[1].split()[0], 16) for line in maps if "heapgauge-profile" in line)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(end - 4096)
        magic, ms = struct.unpack("<8sQ", memory.read(16))
    assert magic == b"HGCTRL\r\n"
    return ms


def site_of(result, function):
    (site,) = [s for s in result["sites"] if s["stack"][0]["function"] == function]
    return site


def bars(site, name):
    return {bar["low_ms"]: bar["count"] for bar in site[name]}


def assert_ages(path, report, days):  # noqa: F811
    """What it did is known to the class, however old it is."""
    summary = report(path, "summary")
    process = summary["processes"][0]
    day_ns, minute_ms = 86400 * 10**9, 60_000
    assert days * day_ns <= process["duration_ns"] < days * day_ns + 100 * 10**9
    assert losses(process) == {}
    lived = bars(site_of(report(path, "lifetimes"), "live_briefly"), "lifetimes")
    assert sum(lived.values()) == 500
    # A clock whose collector has no processor stands still for a moment, and what lived then seems younger.
    assert all(low < minute_ms for low in lived) and any(low >= 64 for low in lived), f"they lived for 100 ms and a little: {lived}"
    leaks = report(path, "leaks")
    ages = {name: bars(site_of(leaks, name), "ages") for name in ("keep_first", "keep_later")}
    assert [sum(of.values()) for of in ages.values()] == [50, 50]
    assert all(low * 2 > days * 86400_000 >= low for low in ages["keep_first"]), ages
    assert all(low < minute_ms for low in ages["keep_later"]) and any(low >= 64 for low in ages["keep_later"]), ages


@pytest.mark.parametrize("days", DAYS)
def test_a_process_that_records_itself_knows_ages_at_any_uptime(build, scratch, clean_env, report, days):  # noqa: F811
    """R11: after ten days, four of five blocks that lived 100 ms were shown as below 1 ms. R10: after fifty days the clock began anew."""
    program = compile_c(scratch, "program", PROGRAM)
    with folder_on_tmpfs() as folder, start([program, str(days)], preloaded(build, clean_env, folder)) as run:
        pid = int(read_line(run))
        assert read_line(run) == "done\n"
        assert_ages(file_of(folder, pid), report, days)


@pytest.mark.parametrize("days", (10, 50, 3653))
def test_a_process_that_is_taken_over_knows_ages_at_any_uptime(
    build, scratch, clean_env, attach, report, days  # noqa: F811
):
    """R10: `record --pid` of a process that is older than 49.7 days. Here the collector's time is later by as much."""
    program, later = compile_c(scratch, "program", PROGRAM), compile_c(scratch, "later", LATER)
    with start([program], preloaded(build, clean_env)) as run:
        pid = int(read_line(run))
        with attach(pid, argv=[later, str(days)]) as recorder:
            if recorder.poll() == NO_RIGHT:
                pytest.skip("a time name space cannot be made here (root, Linux 5.6)")
            wait_for(lambda: clock_ms(pid) >= days * 86400_000, "the collector's clock")
            run.stdin.write("l")
            run.stdin.flush()
            assert read_line(run) == "done\n"
        assert recorder.returncode == 0, recorder.err
        stopped_ms = report(recorder.path, "summary")["processes"][0]["health"].get("clock_stopped_ms", 0)
        assert stopped_ms < 100_000, "the clock did not stand still for 2^32 ms at a time"
        assert_ages(recorder.path, report, days)


# Dormant, and older than it looks from outside; for each line it allocates a million times.
AHEAD = OLDER.replace("days * 86400", "days * 20") + r"""
#include <poll.h>
static void take(int count, size_t bytes) { while (count--) { void *volatile p = malloc(bytes); free(p); } }
int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char byte;
	take(1, 100);
	grow_older(1);
	printf("%d\n", getpid());
	fflush(stdout);
	while (poll(&input, 1, 1) == 0) take(300, 9000);
	while (read(0, &byte, 1) == 1 && byte != 'q') {
		take(1000000, 100);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
"""


def test_a_process_whose_clock_is_ahead_stays_as_it_was_turned(build, scratch, clean_env, attach, report):  # noqa: F811
    """In another time name space each loan of a mode ended at once, and one call in a hundred was recorded, "exact"."""
    program = compile_c(scratch, "ahead", AHEAD)
    with start([program], preloaded(build, clean_env, HEAPGAUGE_MODE="dormant")) as run:
        pid = int(read_line(run))
        with attach(pid) as recorder:
            wait_for(lambda: clock_ms(pid) > 20_000, "the clock of the process")
            run.stdin.write("x")
            run.stdin.flush()
            assert read_line(run) == "done\n"
        assert recorder.returncode == 0, recorder.err
        process = report(recorder.path, "summary")["processes"][0]
        assert process["calls"] > 900_000 and process["duration_ns"] > 20 * 10**9
