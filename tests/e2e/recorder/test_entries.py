# SPDX-License-Identifier: Apache-2.0
"""What the program called for a block (malloc, calloc, new[], ...), against a program that calls each a known number of times."""

import json
import subprocess
import sys

import pytest

from compiled import WAIT_SECONDS, compile_c

PROGRAM = r"""
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <sys/mman.h>
#include <thread>

struct alignas(128) wide { char bytes[128]; };
static void *volatile kept;
#define TIMES(n, ...) for (int i = 0; i < (n); i++) { kept = (void *)(__VA_ARGS__); free(kept); }

/* One call instruction that reaches two functions of the allocator. */
typedef void *function(size_t, size_t);
static __attribute__((noinline, noclone)) void *by_pointer(function *called) { void *p = called(1, 48); kept = p; return p; }

static void rounds()
{
	TIMES(11, malloc(24));
	TIMES(13, calloc(3, 8));
	TIMES(17, realloc(NULL, 24));
	TIMES(2, reallocarray(NULL, 3, 8));
	TIMES(3, aligned_alloc(64, 64));
	TIMES(3, memalign(64, 24));
	TIMES(3, valloc(24));
	for (int i = 0; i < 10; i++) { void *p; if (posix_memalign(&p, 64, 24)) abort(); kept = p; free(p); }
	for (int i = 0; i < 23; i++) { int *p = new int; kept = p; delete p; }
	for (int i = 0; i < 29; i++) { int *p = new int[6]; kept = p; delete[] p; }
	for (int i = 0; i < 2; i++) { int *p = new (std::nothrow) int; kept = p; delete p; }
	for (int i = 0; i < 5; i++) { wide *p = new wide; kept = p; delete p; }
	for (int i = 0; i < 7; i++) { wide *p = new wide[2]; kept = p; delete[] p; }
	/* Grown twice: a block and two calls of realloc. */
	for (int i = 0; i < 4; i++) { void *p = malloc(24); p = realloc(p, 2400); p = realloc(p, 24000); kept = p; free(p); }
	for (int i = 0; i < 31; i++) { free(by_pointer(i % 3 ? (function *)calloc : (function *)(void *)memalign)); }
}

int main()
{
	rounds();
	TIMES(37, strdup("what calls malloc inside of the C library"));
	for (int i = 0; i < 6; i++) kept = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	std::thread(rounds).join();
	return 0;
}
"""
# Of one thread.
CALLS = {"malloc": 11 + 4, "calloc": 13 + 20, "realloc": 17 + 2 + 8, "memalign": 9 + 10 + 11, "new": 23 + 2 + 5, "new[]": 29 + 7}
ALL = {name: 2 * calls for name, calls in CALLS.items()} | {"mmap": 6}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("entries")
    (folder / "program.cc").write_text(PROGRAM)
    # Without builtins: aligned new calls aligned_alloc either way, and no call is optimized away.
    subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-w", "-fno-builtin", "-pthread", folder / "program.cc", "-o", folder / "program"], check=True, timeout=WAIT_SECONDS)
    return folder / "program"


def by_entry(report_json, path):
    """Only of the program's own functions: the C++ library and the loader allocate too."""
    rows = report_json(path, "functions", "--by", "entry", "--cost", "calls", "--focus", "^(rounds|by_pointer)")["entries"]
    return {row["entry"]: row["calls"] for row in rows}


def test_each_function_has_its_calls(program, record, report_json, heapgauge, clean_env):
    run = record([program])
    assert by_entry(report_json, run.path) == {name: calls for name, calls in ALL.items() if name != "mmap"}
    whole = {row["entry"]: row["calls"] for row in report_json(run.path, "functions", "--by", "entry", "--cost", "calls")["entries"]}
    assert whole["mmap"] == 6 and "(not known)" not in whole
    # Also as a filter, and as a column of sites.
    for name, pattern in [("malloc", "^malloc$"), ("new[]", r"^new\[]$"), ("new", "^new$"), ("memalign", "memalign")]:
        sites = report_json(run.path, "sites", "--entry", pattern, "--focus", "rounds")["sites"]
        assert {site["entry"] for site in sites} == {name}
        assert sum(site["calls"] for site in sites) == ALL[name]
    mapped = report_json(run.path, "sites", "--entry", "mmap", "--focus", "^main$")["sites"]
    assert [(site["kind"], site["calls"], site["total_bytes"]) for site in mapped] == [("mmap", 6, 6 * 8192)]
    table = subprocess.run([heapgauge, "export", "--format", "jsonl", run.path, "-o", "-"], env=clean_env, capture_output=True, text=True, check=True).stdout
    rows = [json.loads(line) for line in table.splitlines()]
    assert sum(row["calls"] for row in rows if row["entry"] == "new[]" and "rounds()" in row["stack"]) == ALL["new[]"]


def test_one_call_instruction_reaches_two_functions(program, record, report_json):
    run = record([program])
    sites = report_json(run.path, "sites", "--focus", "by_pointer")["sites"]
    calls = {}
    for site in sites:
        calls[site["entry"]] = calls.get(site["entry"], 0) + site["calls"]
    assert calls == {"calloc": 40, "memalign": 22}


def test_strdup_is_a_frame_above_malloc(program, record, report_json):
    """The C library's strdup calls malloc: that is what the allocator was asked, and strdup is on the stack."""
    run = record([program])
    (site,) = report_json(run.path, "sites", "--focus", "strdup$")["sites"]
    assert (site["entry"], site["calls"], site["total_bytes"]) == ("malloc", 37, 37 * 42)


def test_the_modes_without_stacks_have_them_too(program, record, report_json):
    run = record([program], "--mode", "tags")
    rows = report_json(run.path, "functions", "--by", "entry", "--cost", "calls")["entries"]
    calls = {row["entry"]: row["calls"] for row in rows}
    # The libraries' own calls are among them, which call malloc, calloc and new.
    assert calls["new[]"] == ALL["new[]"] and calls["memalign"] == ALL["memalign"] and calls["malloc"] >= ALL["malloc"] + 37
    sites = report_json(run.path, "sites", "--entry", "memalign")["sites"]
    assert sum(site["frees"] for site in sites) == ALL["memalign"]


SAMPLED = r"""
#include <stdlib.h>
static void *volatile kept;
static __attribute__((noinline)) void twice(void *(*one)(size_t, size_t), size_t a, size_t b) { kept = one(a, b); free(kept); }
int main(void)
{
	for (int i = 0; i < 200000; i++) { twice(calloc, 1, 64); free(kept = malloc(64)); if (i % 4 == 0) free(kept = realloc(NULL, 64)); }
	return 0;
}
"""


def test_samples_estimate_the_calls_of_each(record, report_json, scratch):
    run = record([compile_c(scratch, "sampled", SAMPLED, "-fno-builtin")], "--mode", "sample", "--interval", "4096")
    rows = {row["entry"]: row for row in report_json(run.path, "functions", "--by", "entry", "--cost", "calls")["entries"]}
    for name, calls in {"malloc": 200_000, "calloc": 200_000, "realloc": 50_000}.items():
        assert abs(rows[name]["calls"] - calls) < 6 * rows[name]["calls_error"], (name, rows[name])


def test_python_stacks_have_them(record, report_json, scratch):
    script = scratch / "script.py"
    script.write_text("def grow():\n    return [bytearray(100_000) for _ in range(50)]\nkept = grow()\n")
    run = record([sys.executable, "-I", script])
    rows = report_json(run.path, "functions", "--by", "entry", "--cost", "calls", "--focus", "^grow$", "--kind", "heap")["entries"]
    calls = {row["entry"]: row["calls"] for row in rows}
    # PyObject_Calloc for the zeroed buffer, or PyObject_Malloc and memset: by the version of Python.
    assert set(calls) <= {"malloc", "calloc", "realloc"} and sum(calls.values()) >= 50


def test_comparing_shows_what_is_called_instead(record, heapgauge, clean_env, scratch):
    source = "#include <stdlib.h>\nstatic void *volatile kept;\nint main(void) { for (int i = 0; i < 9; i++) kept = %s; return 0; }\n"
    runs = [
        record([compile_c(scratch, "program", source % call, "-fno-builtin")]).path for call in ("malloc(100)", "calloc(1, 100)")
    ]
    done = subprocess.run([heapgauge, "diff", *runs, "--view", "functions", "--by", "entry", "--cost", "calls", "--format", "json"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    changes = {row["entry"]: row["calls"] for row in json.loads(done.stdout)["entries"]}
    assert changes == {"malloc": -9, "calloc": 9}
