# SPDX-License-Identifier: Apache-2.0
"""What the recorder does when it cannot do its work: the program never pays."""

import os
import re
import subprocess

import pytest

import recorder
from compiled import WAIT_SECONDS, compile_c
from running import without

# What a collector would hand over: a ticket, how to record, its socket; no folder, no ranks, no wrapped functions.
HANDOVER = "0" * 24 + ",1,2,3,3,1000,40,0,4000000,4000000,0,0,1,1,0,0,{},,,"


def run_preloaded(build, argv, env, **more):
    return subprocess.run(
        argv,
        env=env | {"LD_PRELOAD": str(recorder.library(build))},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
        **more,
    )


def truth_lines(text):
    """What the program found out about itself; whether a realloc moved is the allocator's mood."""
    lines = (re.sub(r" realloc\.moved_calls=\d+", "", line) for line in text.splitlines())
    return sorted(line for line in lines if line.startswith("EXPECT"))


@pytest.mark.parametrize(
    "socket", [None, "", "@no-such-abstract-name", "/nowhere/at/all", "@" + "x" * 300, "/" + "x" * 5000]
)
def test_without_a_collector_the_program_runs_as_ever(socket, build, target, clean_env):
    env = clean_env if socket is None else clean_env | {"HEAPGAUGE_HANDOVER": HANDOVER.format(socket)}
    bare = subprocess.run([target("t_c_entry_points")], env=clean_env, capture_output=True, text=True, check=True)
    run = run_preloaded(build, [target("t_c_entry_points")], env)
    assert (run.returncode, run.stdout, run.stderr) == (0, bare.stdout, bare.stderr)


@pytest.mark.parametrize("name", ["t_threads_ends", "t_fork_children", "t_plugin_cxx_local", "t_signals_jump_out"])
def test_without_a_collector_hard_cases_work_too(name, build, target, clean_env):
    run = run_preloaded(build, [target(name)], clean_env)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    "option, value",
    [
        ("f", 0),
        ("n", 16),
        ("n", 5),
        ("n", 4),
        ("v", 256 << 10),
        ("v", 2 << 20),
        ("l", 0),
        ("s", 256),
        ("c", 0),
        ("d", 128 << 10),
    ],
)
def test_limits_of_the_program_do_not_end_it_nor_hide_it(option, value, target, record, report_json, clean_env):
    """`ulimit -OPTION VALUE` in a shell between heapgauge and the program, as a service manager would."""
    program = target("t_realloc_rules")
    argv = ["sh", "-c", f"ulimit -{option} {value}; exec {program}"]
    bare = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
    assert bare.returncode == 0, bare.stderr
    run = record(argv)
    assert run.returncode == 0, run.stderr
    assert truth_lines(run.stdout) == truth_lines(bare.stdout)
    # One profile of the shell, one of the program; or a word about why not.
    calls = sum(int(n) for n in re.findall(r" calls=(\d+)", run.stdout))
    summary = report_json(run.path)
    assert calls in [p["calls"] for p in summary["processes"]] or summary["warnings"] or run.stderr


def test_recorder_that_is_preloaded_twice_counts_once(build, target, clean_env):
    library = str(recorder.library(build))
    env = clean_env | {"LD_PRELOAD": f"{library}:{library}"}
    run = subprocess.run([target("t_c_entry_points")], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_bind_now_and_lazy_binding_make_no_difference(target, record):
    for value in ("", "1"):
        run = record([target("t_stack_scenes")], env={"LD_BIND_NOW": value} if value else {})
        assert run.returncode == 0, run.stderr
        assert "CHECK" not in run.stdout


def test_malloc_perturb_and_tcache_settings_are_left_alone(target, record):
    for env in ({"MALLOC_PERTURB_": "165"}, {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}, {"MALLOC_ARENA_MAX": "1"}):
        run = record([target("t_realloc_rules")], env=env)
        assert run.returncode == 0, run.stderr
        assert "CHECK" not in run.stdout


def test_unwritable_output_is_an_error_before_the_program_starts(heapgauge, target, clean_env):
    done = subprocess.run(
        [heapgauge, "record", "-q", "-o", "/nowhere/at/all.hg", "--", target("ends"), "exit", "3"],
        env=clean_env,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode != 0
    assert "/nowhere/at" in done.stderr
    assert done.stdout == ""


def test_full_disk_does_not_harm_the_program(heapgauge, target, clean_env):
    done = subprocess.run(
        [heapgauge, "record", "-q", "-o", "/dev/full", "--", target("ends"), "exit", "3"],
        env=clean_env,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert "ending by exit 3\n" == done.stdout
    assert done.returncode != 0 and "/dev/full" in done.stderr


def test_target_in_a_new_root_is_recorded_or_said_why(heapgauge, clean_env, scratch):
    """After chroot the program may not reach us any more, but it was connected before."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    source, program = scratch / "root.c", scratch / "root"
    source.write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n"
        'int main(void) { if (chroot("/proc")) return 9;\n'
        "for (int i = 0; i < 100000; i++) { void *volatile p = malloc(i % 3000); if (i % 9) free(p); }\n"
        "return 4; }\n"
    )
    subprocess.run(["gcc", "-O0", source, "-o", program], check=True, timeout=WAIT_SECONDS)
    done = subprocess.run(
        [heapgauge, "record", "-q", "-o", scratch / "root.hg", "--", program],
        env=clean_env,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 4, done.stderr


def test_forbidden_system_calls_cost_details_but_never_the_program(target, record, report_json):
    """A filter lets even the opening of more memory fail: the rest is counted."""
    run = record([target("seccomp_errno")])
    assert run.returncode == 0, run.stdout + run.stderr
    calls = int(re.search(r"CALLS (\d+)", run.stdout).group(1))
    process = report_json(run.path)["processes"][0]
    lost = sum(v for k, v in process["health"].items() if k in ("unregistered_calls", "early_calls", "reentrant_calls"))
    assert process["calls"] + lost == calls
    assert process["health"], "memory was refused: somebody must say so"


def resident_kib(text):
    return int(re.search(r"RESIDENT (\d+)", text).group(1))


def test_locking_all_memory_does_not_fill_the_profile(target, record, clean_env):
    program = target("locks_memory")
    bare = subprocess.run([program], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    run = record([program])
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == bare.stdout.splitlines()[0]
    assert resident_kib(run.stdout) < resident_kib(bare.stdout) + (16 << 10)


def test_locking_all_memory_under_a_limit_works_as_ever(target, record, clean_env):
    program = target("locks_memory")
    bare = subprocess.run([program, "limit"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    run = record([program, "limit"])
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == bare.stdout.splitlines()[0]


UNHURRIED = r"""
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static void take(void)
{
	for (int i = 0; i < 1000; i++) {
		void *volatile p = malloc(64);
		(void)p;
	}
}
int main(void)
{
	for (int i = 0; i < 20; i++) {
		take();
		usleep(50000);
	}
	return 0;
}
"""


def test_memory_that_goes_with_its_process_is_copied_with_its_stacks(scratch, record, report_json):
    """V6: no file may be made, so the process tells where its memory is. The last copy of it is the recording."""
    program = compile_c(scratch, "unhurried", UNHURRIED)
    run = record(["sh", "-c", f"ulimit -f 0; exec {program}"])
    sites = report_json(run.path, "sites")["sites"]
    most = max(sites, key=lambda site: site["calls"])
    assert most["calls"] >= 1000 and [frame["function"] for frame in most["stack"]][:2] == ["take", "main"]


# Allocates for as long as it is given, in rounds of 1000 blocks, tells how many, and is gone at once.
IN_ROUNDS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	struct timespec now, begun;
	long calls = 0;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		for (int i = 0; i < 1000; i++, calls++) { void *block = malloc(100); __asm__("" : "+r"(block)); free(block); }
		usleep(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begun.tv_sec < 3);
	dprintf(1, "%ld\n", calls);
	_exit(0);
}
"""


def test_what_was_not_copied_before_the_end_is_told(scratch, record, report_json):
    """A process that can make neither memory with a descriptor nor a file keeps its profile in memory that goes with it."""
    program = compile_c(scratch, "in_rounds", IN_ROUNDS)
    run = record([without(scratch, "memfd_create"), without(scratch, "statfs"), program])
    assert run.returncode == 0, run.stderr
    process = next(p for p in report_json(run.path)["processes"] if p["command"] == str(program))
    assert process["health"].get("lost_end") == 1
    assert process["calls"] <= int(run.stdout)
