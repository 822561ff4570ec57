# SPDX-License-Identifier: Apache-2.0
"""A program that is recorded beside other tools: in gdb, with perf around heapgauge, under a limit of the kernel, and with a preloaded library that
configures the recorder."""

import pathlib
import subprocess

import pytest

from alone import preloaded
from compiled import WAIT_SECONDS, compile_c
from exports import tool

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = """
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline, noipa)) void allocate(size_t bytes) { kept = malloc(bytes); __asm__ volatile(""); }
int main(void) { for (int i = 0; i < 1000; i++) allocate(i < 900 ? 100 : 5000); return 0; }
"""
CONFIGURE = """
#include <heapgauge/heapgauge.h>
__attribute__((constructor)) static void configure(void) { hg_stacks(1000, SIZE_MAX); }
"""
GREEDY = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline, noipa)) char *grow(void) { char *block = malloc(1 << 20); return block ? memset(block, 1, 1 << 20) : NULL; }
int main(void) { while (grow()); return 9; }
"""


def allocated(report_json, path):
    """(calls, bytes) of allocate(), whatever process it ran in."""
    rows = report_json(path, "functions", "--cost", "calls")["functions"]
    return [row["calls"] for row in rows if row["function"] == "allocate"]


def test_in_gdb(record, report_json, scratch):
    gdb = tool("gdb", "gdb")
    program = compile_c(scratch, "program", PROGRAM)
    run = record([gdb, "-q", "-nx", "--batch", "-ex", "break allocate if bytes == 5000", "-ex", "run", "-ex", "bt", "-ex", "delete", "-ex", "continue", "--args", program], "--only-exe", "/program$")
    assert run.returncode == 0 and "#1 " in run.stdout and "main" in run.stdout, run.stdout + run.stderr
    assert allocated(report_json, run.path) == [1000]
    assert len(report_json(run.path, "processes")["processes"]) == 1


def test_with_perf_around_it(heapgauge, clean_env, report_json, scratch):
    perf = tool("perf", "linux-perf")
    counts = [perf, "stat", "-x,", "-e", "task-clock"]
    if subprocess.run([*counts, "true"], capture_output=True).returncode:
        pytest.skip("the kernel lets perf count nothing here")
    program = compile_c(scratch, "program", PROGRAM)
    argv = [*counts, heapgauge, "record", "-q", "-o", scratch / "run.hg", program]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0 and ",task-clock," in done.stderr, done.stderr
    assert allocated(report_json, scratch / "run.hg") == [1000]


def test_in_valgrind_the_preloaded_recorder_is_no_error(build, clean_env, scratch):
    """Its own reads of malloc's headers were reported."""
    program = compile_c(scratch, "program", PROGRAM)
    argv = [tool("valgrind", "apt-get install valgrind"), "-q", "--error-exitcode=9", program]
    done = subprocess.run(argv, env=preloaded(build, clean_env), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_limit_of_the_kernel_stops_the_program_and_not_the_recording(record, report_json, scratch):
    run = record(["prlimit", "--data=100000000", compile_c(scratch, "greedy", GREEDY)])
    assert run.returncode == 9
    (row,) = [row for row in report_json(run.path, "functions", "--cost", "leaked")["functions"] if row["function"] == "grow"]
    assert 50_000_000 < row["live_bytes"] < 100_000_000


def test_a_preloaded_library_configures_the_recorder(record, report_json, scratch):
    library = compile_c(scratch, "configure.so", CONFIGURE, "-shared", "-fPIC", f"-I{ROOT / 'include'}")
    run = record([compile_c(scratch, "program", PROGRAM)], env={"LD_PRELOAD": str(library)})
    assert run.returncode == 0, run.stderr
    assert allocated(report_json, run.path) == [100]  # the others were counted without a stack
