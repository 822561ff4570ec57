# SPDX-License-Identifier: Apache-2.0
"""A jemalloc inside the executable calls the recorder by its own hooks: programs say what they did, and what is recorded is the same.

HEAPGAUGE_LONG=1: also with the jemalloc of three crates, which cargo fetches and compiles for some minutes each (builds.py).
"""

import os
import pathlib
import re
import subprocess

import pytest

from builds import Builds
from compiled import WAIT_SECONDS, losses
from test_targets import SOURCES, TARGETS, compare, inconsistencies, parse
from test_truth import BENCH, split_sites

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ARCHIVE = pathlib.Path("/usr/lib/x86_64-linux-gnu/libjemalloc.a")
HEADER = pathlib.Path("/usr/include/jemalloc/jemalloc.h")
NAME = "jemalloc " + (re.search(r'JEMALLOC_VERSION "([\d.]+)', HEADER.read_text())[1] if HEADER.exists() else "") + " (hooks)"
FAMILY = ["malloc", "free", "calloc", "realloc", "aligned_alloc", "memalign", "posix_memalign", "valloc", "malloc_usable_size"]
OTHERS = ["mallctl", "mallocx", "rallocx", "xallocx", "sallocx", "dallocx", "sdallocx", "nallocx"]
C_TARGETS = ["t_realloc_rules.c", "t_rv_tiny_blocks.c", "t_threads_cross_free.c", "t_fork_threads.c", "t_temporary_blocks.c"]
CXX_TARGETS = ["t_cxx_operators.cc"] + ["t_cxx_bad_alloc.cc", "t_rv_every_way.cc"] * LONG


def run(*argv, timeout=WAIT_SECONDS, **more):
    return subprocess.run([str(word) for word in argv], check=True, timeout=timeout, **more)


def link(source, program, archive, *flags):
    compiler = ["g++", "-std=c++17"] if source.suffix == ".cc" else ["gcc"]
    run(*compiler, "-O2", "-g", "-pthread", f"-I{TARGETS}", *flags, source, "-o", program, archive, "-lm", "-ldl", "-lstdc++")
    return program


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where programs are built; test_targets knows a program's own modules by the folder's name."""
    path = tmp_path_factory.mktemp("jemalloc") / "targets"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def archive():
    if not ARCHIVE.exists():
        pytest.fail(f"{ARCHIVE} is not installed")
    return ARCHIVE


@pytest.fixture(scope="session")
def prefixed(archive, folder):
    """The same with names that begin with je_, as Redis has it."""
    path = folder / "libprefixed.a"
    run("objcopy", *(f"--redefine-sym={name}=je_{name}" for name in FAMILY + OTHERS), archive, path)
    return path


def check(program, allocator, record, report_json):
    done = record([program])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    truth = parse(done.stdout)
    assert truth.expectations
    process = report_json(done.path)["processes"][0]
    assert process["allocator"] == allocator
    assert report_json(done.path)["warnings"] == {}
    sites = [s for s in report_json(done.path, "sites")["sites"] if s["pid"] == process["pid"]]
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)
    own = {f["function"].partition("(")[0] for s in sites for f in s["stack"][:1] if f["module"] == str(program)}
    assert not {name for name in own if re.search(r"hook_invoke|malloc|alloc_default|allocx|fallback|newImpl|operator", name)}, own


@pytest.mark.parametrize("name", C_TARGETS + CXX_TARGETS)
def test_a_target_is_recorded_as_it_says(name, archive, folder, record, report_json):
    program = link(SOURCES[name], folder / f"{name}-static", archive)
    check(program, NAME, record, report_json)


@pytest.mark.parametrize("name", C_TARGETS[1:] + CXX_TARGETS[:1])  # the first calls reallocarray, which has no prefix
def test_the_same_under_names_with_a_prefix(name, prefixed, folder, record, report_json):
    names = [f"-D{name}=je_{name}" for name in FAMILY] if name in C_TARGETS else []
    program = link(SOURCES[name], folder / f"{name}-prefixed", prefixed, *names)
    check(program, f"glibc, {NAME}", record, report_json)


def test_a_stripped_program_is_recorded_if_its_debug_file_is_there(archive, folder, record, report_json):
    program = link(SOURCES["t_realloc_rules.c"], folder / "stripped", archive, "-Wl,--build-id")
    debug = folder / "stripped.debug"
    run("objcopy", "--only-keep-debug", program, debug)
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program)
    check(program, NAME, record, report_json)
    debug.unlink()
    done = record([program])
    assert done.returncode == 0
    assert report_json(done.path)["warnings"] == {"unrecorded_allocators": 1}
    assert report_json(done.path)["processes"][0]["allocator"] == "stripped"


def test_the_program_may_be_started_by_another_one(archive, folder, record, report_json):
    """The addresses are used in the program that they were found in, and not in env."""
    program = link(SOURCES["t_realloc_rules.c"], folder / "started", archive)
    done = record(["env", "A=1", program])
    assert done.returncode == 0
    allocators = {pathlib.Path(p["command"].split()[0]).name: p["allocator"] for p in report_json(done.path)["processes"]}
    assert allocators == {"env": "glibc", "started": NAME}


def test_sampled_calls_are_counted_and_estimates_are_right(archive, folder, record, report_json):
    program = link(BENCH / "churn.c", folder / "churn", archive)
    done = record([program, "4", "500000"], "--mode", "sample", "--interval", "16KiB")
    assert done.returncode == 0, done.stderr
    truth = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)\b", re.search(r"^TRUTH .*$", done.stderr, re.M).group())}
    [process] = report_json(done.path)["processes"]
    assert losses(process) == {}
    assert truth["calls"] <= process["calls"] <= truth["calls"] + 10
    sites, _ = split_sites(report_json(done.path, "sites")["sites"], program, {"leaf"})
    for column, key in (("calls", "calls"), ("total_bytes", "bytes"), ("freed_bytes", "bytes")):
        assert sum(s[column] for s in sites) == pytest.approx(truth[key], rel=0.05)


OPERATORS = """
#include <cstdio>
#include <vector>
__attribute__((noinline)) static void *leaf(unsigned n)
{
	void *block = n % 2 ? (void *)new char[n + 1] : ::operator new(n + 1);
	__asm__ volatile("" : "+r"(block));
	return block;
}
int main()
{
	std::vector<void *> all(1000);
	unsigned long bytes = 0;
	for (unsigned i = 0; i < 200000; i++) {
		::operator delete(all[i % 1000]);
		all[i % 1000] = leaf(i % 500);
		bytes += i % 500 + 1;
	}
	std::fprintf(stderr, "TRUTH calls=200000 bytes=%lu\\n", bytes);
}
"""


@pytest.mark.parametrize("mode", ["exact", "sample"])
def test_operators_that_call_the_linked_in_malloc_count_once(mode, archive, folder, record, report_json):
    """A jemalloc without C++: libstdc++'s operator new, which passes through the recorder, calls malloc, which does not."""
    only_c = folder / "libonly_c.a"
    only_c.write_bytes(archive.read_bytes())
    run("ar", "d", only_c, *[m for m in run("ar", "t", only_c, capture_output=True, text=True).stdout.split() if "cpp" in m])
    source = folder / "operators.cc"
    source.write_text(OPERATORS)
    program = link(source, folder / "operators", only_c, "-Wl,-u,malloc")
    done = record([program], "--mode", mode)
    assert done.returncode == 0, done.stderr
    truth = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)\b", done.stderr)}
    [process] = report_json(done.path)["processes"]
    assert losses(process) == {} and process["allocator"].endswith(" (hooks)")
    assert truth["calls"] <= process["calls"] <= truth["calls"] + 10
    if mode == "exact":
        leaf = [s for s in report_json(done.path, "sites")["sites"] if any(f["function"].partition("(")[0] == "leaf" for f in s["stack"])]
        assert (sum(s["calls"] for s in leaf), sum(s["total_bytes"] for s in leaf)) == (truth["calls"], truth["bytes"])


def test_reports_say_what_it_costs(archive, folder, heapgauge, record, clean_env):
    program = link(BENCH / "churn.c", folder / "cost", archive)
    done = record([program, "1", "1000"])
    text = run(heapgauge, "report", done.path, env=clean_env, capture_output=True, text=True).stdout
    assert f"allocator  {NAME}: linked into the program, and slower while it is recorded" in text
    text = run(heapgauge, "doctor", program, env=clean_env, capture_output=True, text=True).stdout
    assert "jemalloc is linked in statically: recorded by its hooks" in text


HANDLER = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
enum { TRAP_FLAG = 0x100 };
static uintptr_t start, end;
static unsigned to_pass, taken;
static void *volatile kept;
/* SIGTRAP after each instruction. jemalloc can be called only where it is not interrupted itself: in the recorder. */
static void handle(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t at = registers[REG_RIP];
	if (at < start || at >= end || to_pass-- > 0)
		return;
	registers[REG_EFL] &= ~TRAP_FLAG;
	kept = malloc(100);
	taken++;
}
static void step(int on)
{
	if (on)
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq %0, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::"i"(TRAP_FLAG) : "memory", "cc");
	else
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq %0, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::"i"(~TRAP_FLAG) : "memory", "cc");
}
int main(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART };
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		unsigned long from, to;
		char flags[8];
		if (sscanf(line, "%lx-%lx %7s", &from, &to, flags) == 3 && flags[2] == 'x' && strstr(line, "libheapgauge"))
			start = from, end = to;
	}
	fclose(maps);
	sigaction(SIGTRAP, &action, NULL);
	/* Interrupts a malloc and a free in each instruction of the recorder once. */
	for (unsigned position = 0, before = ~0u; taken != before; position++) {
		before = taken;
		to_pass = position;
		step(1);
		void *volatile block = malloc(1 + position);
		free(block);
		step(0);
	}
	fprintf(stderr, "TAKEN %u\\n", taken);
	return 0;
}
"""


def test_what_a_handler_allocates_inside_of_a_hook_is_counted_as_lost(archive, folder, record, report_json):
    source = folder / "handler.c"
    source.write_text(HANDLER)
    done = record([link(source, folder / "handler", archive, "-fno-builtin", "-w")])
    assert done.returncode == 0, done.stderr
    taken = int(re.search(r"TAKEN (\d+)", done.stderr)[1])
    [process] = report_json(done.path)["processes"]
    # In its first and last instructions a hook does not look yet, or no longer.
    assert taken >= 20 and taken / 2 <= process["health"].get("reentrant_calls", 0) <= taken


# ---- with the jemalloc of crates ----


@pytest.mark.skipif(not LONG, reason="compiles jemalloc six times: HEAPGAUGE_LONG=1")
@pytest.mark.parametrize("name", C_TARGETS[1:] + ["t_cxx_bad_alloc.cc"])
@pytest.mark.parametrize("names", ["prefixed", "plain"])
@pytest.mark.parametrize("version", ["5.2.1", "5.3.0", "5.3.1"])
def test_a_target_with_the_jemalloc_of_a_crate(version, names, name, build, folder, record, report_json):
    if names == "prefixed" and name.endswith(".cc"):
        pytest.skip("does not exist: the crate has no operators")
    _, archive = Builds(build / "allocators").crate(f"jemalloc-{version}", names == "prefixed")
    # Nothing else takes malloc from the archive if only operators call it.
    flags = [f"-D{name}=_rjem_{name}" for name in FAMILY] if names == "prefixed" else ["-Wl,-u,malloc"]
    program = link(SOURCES[name], folder / f"{name}-{version}-{names}", archive, *flags)
    before = "glibc, " if names == "prefixed" else ""
    check(program, f"{before}jemalloc {version} (hooks)", record, report_json)


ENTRIES = """
#include <malloc.h>
#include <stdlib.h>
static void *volatile kept;
#define TIMES(n, call) for (int i = 0; i < (n); i++) { kept = call; free(kept); }
int main(void)
{
	TIMES(11, malloc(24));
	TIMES(13, calloc(3, 8));
	TIMES(17, realloc(NULL, 24));
	TIMES(19, aligned_alloc(64, 64));
	TIMES(2, memalign(64, 64));
	TIMES(3, valloc(64));
	return 0;
}
"""


def test_what_was_called_is_known(archive, folder, record, report_json):
    source = folder / "entries.c"
    source.write_text(ENTRIES)
    done = record([link(source, folder / "entries", archive, "-fno-builtin")])
    assert done.returncode == 0, done.stderr
    assert report_json(done.path)["processes"][0]["allocator"] == NAME
    rows = report_json(done.path, "functions", "--by", "entry", "--cost", "calls", "--focus", "^main$")["entries"]
    assert {row["entry"]: row["calls"] for row in rows} == {"malloc": 11, "calloc": 13, "realloc": 17, "memalign": 24}
