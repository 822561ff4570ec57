# SPDX-License-Identifier: Apache-2.0
"""The probes otel_memory:alloc and otel_memory:free: what bpftrace counts is what the recording has, to the byte."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import recorder
from alone import file_of, folder_on_tmpfs
from compiled import WAIT_SECONDS, compile_c, losses
from test_control import INCLUDE
from tracing import need_bpftrace, probes_of, semaphores, traced

# Does what each character of its input says, and tells its pid: 1, 2 and 3 allocate, reallocate and free in two threads, f does so
# in a child, t and a digit set the mode. What one of them keeps the next one may free.
PROGRAM = r"""
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum { KEPT = 3000 };
static void *kept[2 * KEPT];
/* So much that a thread reads the mode again. */
static void settle(void) { for (int i = 0; i < 2; i++) { void *volatile large = malloc(2 << 20); free(large); } }
#define ROUND(name, seed)                                                                \
	static void *name(void *arg)                                                     \
	{                                                                                \
		void **own = arg;                                                        \
		uint32_t random = seed;                                                  \
		settle();                                                                \
		for (int i = 0; i < 30000; i++) {                                        \
			random = random * 1664525u + 1013904223u;                        \
			void **at = &own[(random >> 8) % KEPT];                          \
			size_t size = 1 + (random >> 12) % (i % 16 == 0 ? 40000 : 2000); \
			if (i % 3 == 0) { *at = realloc(*at, size); continue; }          \
			free(*at);                                                       \
			*at = i % 3 == 1 ? malloc(size) : calloc(1, size);               \
		}                                                                        \
		for (int i = 0; i < KEPT; i += 3)                                        \
			free(__atomic_exchange_n(&own[i], NULL, __ATOMIC_RELAXED));      \
		return NULL;                                                             \
	}
ROUND(one, 1)
ROUND(two, 2)
ROUND(three, 3)
ROUND(of_child, 4)
static void run(void *(*round)(void *))
{
	pthread_t thread;
	pthread_create(&thread, NULL, round, kept + KEPT);
	round(kept);
	pthread_join(thread, NULL);
	for (int i = 1; i < KEPT; i += 3) { free(kept[KEPT + i]); kept[KEPT + i] = NULL; } /* of the other thread */
}
int main(void)
{
	static char in[64], out[64];
	int word;
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	alarm(900);
	while ((word = getchar()) != EOF && word != 'q') {
		pid_t child = word == 'f' ? fork() : 0;
		if (word == 'f' && child == 0) { settle(); run(of_child); _exit(0); } /* one thread first: recording starts with it */
		if (word == 'f') waitpid(child, NULL, 0);
		if (word == 't') hg_mode((enum hg_mode)(getchar() - '0'));
		if (word >= '1' && word <= '3') run(word == '1' ? one : word == '2' ? two : three);
		printf("%d\n", getpid());
		fflush(stdout);
	}
	return 0;
}
"""
# Not the blocks that settle() allocates, which would have to be told apart by their stack.
SCRIPT = """
usdt:FILE:otel_memory:alloc /arg1 < (1 << 20)/ {
    @samples[pid] = count(); @bytes[pid] = sum(arg2); @live[pid, arg0] = arg2;
}
usdt:FILE:otel_memory:free {
    if (@live[pid, arg0] > 0) { @frees[pid] = count(); @freed[pid] = sum(@live[pid, arg0]); delete(@live[pid, arg0]); }
    else { @unknown[pid] = count(); }
}
"""


@pytest.fixture
def library(build, scratch):
    """A copy of the recorder: who attaches to it sees no program of another test."""
    return pathlib.Path(shutil.copy(recorder.library(build), scratch / "libheapgauge-copy.so"))


class Talking:
    """The program, being recorded, which does things one by one."""

    def __init__(self, argv, env):
        self.run = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.say("x")

    def say(self, words):
        self.run.stdin.write(words)
        self.run.stdin.flush()
        return int(self.run.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _, err = self.run.communicate("q", timeout=WAIT_SECONDS)
        assert (self.run.returncode, err) == (0, "")


@pytest.fixture
def talking(scratch, library, heapgauge, clean_env):
    """talking(option...): the program under `heapgauge record`, in scratch/run.hg."""
    need_bpftrace()
    program = compile_c(scratch, "program", PROGRAM, "-pthread", f"-I{INCLUDE}")

    def start(*options):
        argv = [heapgauge, "record", "-q", "-o", scratch / "run.hg", *options, "--", program]
        return Talking(argv, clean_env | {"HEAPGAUGE_RECORDER": str(library)})

    return start


SAMPLING = ("--mode", "sample", "--interval", "16KiB")


def script(library):
    return SCRIPT.replace("FILE", str(library))


def traced_of(maps, pid):
    """What bpftrace counted for a process: samples, bytes, freed bytes, and the bytes of what was not freed."""
    live = [weight for key, weight in maps.get("@live", {}).items() if key.startswith(f"{pid},")]
    counted = [maps.get(name, {}).get(str(pid), 0) for name in ("@samples", "@bytes", "@freed", "@frees")]
    assert counted[0] == counted[3] + len(live)
    return (*counted[:3], sum(live))


def recorded_of(report_json, path, pid, function=None):
    """The same of the recording, but for settle(), or of one function."""
    sites = [
        site
        for site in report_json(path, "sites")["sites"]
        if site["pid"] == pid
        and not any(frame["function"] == "settle" for frame in site["stack"])
        and (function is None or any(frame["function"] == function for frame in site["stack"]))
    ]
    return tuple(sum(site.get(name, 0) for site in sites) for name in ("samples", "total_bytes", "freed_bytes", "not_freed_bytes"))


def builds():
    return [name for name in ("HEAPGAUGE_BUILD", "HEAPGAUGE_CLANG_BUILD") if name == "HEAPGAUGE_BUILD" or name in os.environ]


@pytest.mark.parametrize("which", builds())
def test_the_library_has_both_probes(which, build):
    folder = pathlib.Path(os.environ.get(which, build))
    file = folder / "libheapgauge.so"
    probes = probes_of(file)
    assert {(probe.provider, probe.name) for probe in probes.values()} == {("otel_memory", "alloc"), ("otel_memory", "free")}
    assert [len(probes[name].arguments.split()) for name in ("alloc", "free")] == [3, 1]
    assert all(re.fullmatch(r"(8@%?\w+ ?)+", probe.arguments) for probe in probes.values())
    layout = subprocess.run(["readelf", "-lSW", file], capture_output=True, text=True, check=True).stdout
    start, size = (int(number, 16) for number in re.search(r"\.probes\s+PROGBITS\s+(\w+) \w+ (\w+) \d+\s+WA", layout).groups())
    assert all(start <= probe.semaphore < start + size for probe in probes.values())
    relro, bytes_ = (int(number, 16) for number in re.search(r"GNU_RELRO\s+\w+ (\w+) \w+ \w+ (\w+)", layout).groups())
    assert not any(relro <= probe.semaphore < relro + bytes_ for probe in probes.values())
    base = int(re.search(r"\.stapsdt\.base\s+PROGBITS\s+(\w+)", layout)[1], 16)
    assert {probe.base for probe in probes.values()} == {base}


def test_counts_are_those_of_the_recording(talking, library, scratch, report_json):
    with talking(*SAMPLING) as program:
        with traced(script(library), program.pid, library) as maps:
            program.say("1")
            program.say("2")
    recorded = recorded_of(report_json, scratch / "run.hg", program.pid)
    assert traced_of(maps, program.pid) == recorded
    assert recorded[0] > 5000 and recorded[3] > 0
    # Two blocks of settle() in two threads, twice.
    assert maps["@unknown"] == {str(program.pid): 8}
    (process,) = report_json(scratch / "run.hg")["processes"]
    assert process["samples"] == recorded[0] + 8
    assert losses(process) == {}


def test_a_tracer_may_come_and_go(talking, library, scratch, report_json):
    with talking(*SAMPLING) as program:
        program.say("1")
        assert semaphores(program.pid, library) == [0, 0]
        with traced(script(library), program.pid, library) as maps:
            program.say("2")
        assert semaphores(program.pid, library) == [0, 0]
        program.say("3")
        with traced(script(library), program.pid, library):
            pass
    samples, bytes_, *_ = recorded_of(report_json, scratch / "run.hg", program.pid, "two")
    assert traced_of(maps, program.pid)[:2] == (samples, bytes_)
    assert samples > 2000
    assert maps["@unknown"][str(program.pid)] > 100  # samples of before


def test_only_samples_are_traced_whatever_the_mode_was(talking, library, scratch, report_json):
    """Exact, sampled, dormant, sampled. What was recorded exactly is freed without a word."""
    with talking(*SAMPLING) as program:
        with traced(script(library), program.pid, library) as maps:
            program.say("t3")
            program.say("1")
            program.say("t2")
            program.say("2")
            program.say("t0")
            program.say("1")
            program.say("t2")
            program.say("3")
    traced_here = traced_of(maps, program.pid)
    sampled = [recorded_of(report_json, scratch / "run.hg", program.pid, name) for name in ("two", "three")]
    assert traced_here == tuple(map(sum, zip(*sampled)))
    assert all(rows[0] > 2000 for rows in sampled)
    assert recorded_of(report_json, scratch / "run.hg", program.pid, "one")[0] == 0


def test_children_are_processes_of_their_own(talking, library, scratch, report_json):
    with talking(*SAMPLING) as program:
        with traced(script(library), program.pid, library) as maps:
            program.say("1")
            program.say("f")
            program.say("2")
    processes = report_json(scratch / "run.hg")["processes"]
    assert len(processes) == 2
    for process in processes:
        recorded = recorded_of(report_json, scratch / "run.hg", process["pid"])
        assert traced_of(maps, process["pid"]) == recorded
        assert recorded[0] > 2000
    # A child frees many blocks of its parent; none of them is a sample of its own. These are settle()'s.
    child = next(process["pid"] for process in processes if process["pid"] != program.pid)
    assert maps["@unknown"] == {str(program.pid): 8, str(child): 6}


def test_a_program_that_links_the_recorder_has_the_probes(scratch, build, clean_env, report_json):
    need_bpftrace()
    linked = ["-Wl,-u,heapgauge_linked", str(build / "libheapgauge.a")]
    program = compile_c(scratch, "linked", PROGRAM, "-pthread", f"-I{INCLUDE}", *linked)
    with folder_on_tmpfs() as folder:
        own = {"HEAPGAUGE_MODE": "sample", "HEAPGAUGE_INTERVAL": "16384", "HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1"}
        with Talking([program], clean_env | own) as talking_alone:
            with traced(script(program), talking_alone.pid, program) as maps:
                talking_alone.say("1")
        recorded = recorded_of(report_json, file_of(folder, talking_alone.pid), talking_alone.pid)
    assert traced_of(maps, talking_alone.pid) == recorded
    assert recorded[0] > 2000
