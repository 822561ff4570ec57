# SPDX-License-Identifier: Apache-2.0
"""Children that fork makes.

R13: a child left a part of its parent's profile mapped, which kept all of it in memory for as long as the child lived.
H11: every process took 64 GiB of the collector's address space, so that 2,046 could be recorded at once.
C12: every child of a fork populated a profile of its own, whatever it allocated.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c


@pytest.fixture
def chain(target, clean_env):
    """chain(env, *arguments): what the last of 20 generations prints."""

    def run(*arguments, env=None, under=()):
        argv = [*under, target("fork_chain"), *arguments]
        done = subprocess.run(
            argv, env=env or clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split(", ")

    return run


# In MiB of address space: the recorder gives back what it has reserved.
@pytest.mark.parametrize("limit", [(), ("2000",), ("500",)])
def test_a_child_keeps_nothing_of_its_parents_profile(limit, chain, heapgauge, build, clean_env, scratch):
    """R13: and takes nothing from the program, which has what was given back."""
    _, expected = chain(*limit)
    gaps, mappings = chain(*limit, under=(heapgauge, "record", "-q", "-o", scratch / "run.hg"))
    assert mappings == expected
    assert (gaps != "gaps 0") == bool(limit)
    assert chain(*limit, env=preloaded(build, clean_env)) == [gaps, expected]
    with folder_on_tmpfs() as folder:
        assert chain(*limit, env=preloaded(build, clean_env, folder)) == [gaps, expected]


def test_more_processes_at_once_than_fit_into_an_address_space(target, record, report_json):
    """H11."""
    run = record([target("many_forks"), "together", "2200"])
    assert run.returncode == 0, run.stderr
    assert len(report_json(run.path, "processes")["processes"]) == 2201


def test_a_child_that_allocates_little_touches_little(target, record, clean_env):
    """C12: counted in page faults; what a child takes from the machine beside them is its own."""
    program = target("many_forks")
    argv = [program, "in-turn", "100"]
    bare = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    run = record(argv)
    faults = [int(text.split()[1]) for text in (bare.stdout, run.stdout)]
    assert faults[1] - faults[0] <= 100, faults


INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"
NAMES_AFTER_FORK = r"""
#include <heapgauge/heapgauge.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile kept;
int main(void)
{
	int ready[2], status;
	kept = malloc(100);
	pipe(ready);
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			char byte;
			read(ready[0], &byte, 1); /* until the parent's table of names has grown */
			for (int j = 0; j < 100; j++) kept = malloc(1000);
			_exit(0);
		}
	for (int i = 0; i < 5000; i++) {
		char name[32];
		snprintf(name, sizeof name, "name %d", i);
		HG_SCOPE_NAME(name);
		kept = malloc(50);
	}
	write(ready[1], "xx", 2);
	for (int i = 0; i < 2; i++) {
		wait(&status);
		if (!WIFEXITED(status)) return 1;
	}
	return 0;
}
"""


@pytest.mark.parametrize("mode", ["exact", "sample"])
def test_a_child_is_not_hurt_by_names_that_its_parent_gives_after_the_fork(mode, record, report_json, scratch):
    """What the parent opened of its tables since the fork was not readable in the child, which crashed with its first allocation."""
    program = compile_c(scratch, "names", NAMES_AFTER_FORK, f"-I{INCLUDE}")
    run = record([program], "--mode", mode)
    assert run.returncode == 0
    processes = report_json(run.path)["processes"]
    assert [(p["calls"], p["total_bytes"]) for p in processes[1:]] == [(100, 100_000)] * 2


# At each instruction of the recorder, once, a handler forks, and the child goes on where its parent was interrupted.
FORKS_IN_HANDLER = r"""
#include "interrupted.h"
#include "single_step.h"
#include <sys/wait.h>
static int is_child;
static void on_step(int number, siginfo_t *info, void *context)
{
	static char done[1 << 20];
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	char *here = &done[(registers[REG_RIP] - recorder_text.start) % sizeof done];
	int status;

	if (is_child || *here || interrupted_where(context) != IN_RECORDER)
		return;
	*here = 1;
	pid_t child = fork();
	if (child == 0) {
		is_child = 1;
		registers[REG_EFL] &= ~0x100;
		void *volatile p = malloc(10);
		free(p);
		return;
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
int main(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	interrupted_init();
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	step_on();
	void *volatile p = malloc(100);
	step_off();
	for (int i = 0; i < 1000; i++)
		p = malloc(100);
	return 0;
}
"""


@pytest.mark.parametrize("mode", ["exact", "sample"])
def test_a_child_that_a_signal_handler_forks_out_of_the_recorder_hurts_nobody(mode, record, scratch):
    """It went on in its parent's profile and opened some of it, which the parent then took for open, and crashed."""
    program = compile_c(
        scratch, "handler", FORKS_IN_HANDLER, "-D_GNU_SOURCE", f"-I{INCLUDE.parent / 'tests' / 'targets'}"
    )
    run = record([program], "--mode", mode)
    assert (run.returncode, run.stderr) == (0, "")


# A handler forks out of the recorder again and again; the children wait a while in the handler, and then complete the call that was
# interrupted, while their parent goes on and makes its tables larger. argv[1]: how many children at most.
FORKS_WHILE_TABLES_GROW = r"""
#include "interrupted.h"
#include <sys/time.h>
#include <sys/wait.h>
static volatile int is_child, forks, most;
static void on_alarm(int number, siginfo_t *info, void *context)
{
	int before = errno;
	if (is_child || forks >= most || interrupted_where(context) != IN_RECORDER)
		return;
	pid_t child = fork();
	if (child == 0) {
		is_child = 1;
		usleep(30000);
		return;
	}
	forks++;
	errno = before;
}
static NOINLINE long left(long path, int depth);
static NOINLINE long right(long path, int depth);
static long next(long path, int depth)
{
	if (depth == 0) {
		void *volatile block = malloc(48);
		(void)block;
		if (is_child)
			_exit(0);
		return path;
	}
	return path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
}
static NOINLINE long left(long path, int depth)
{
	long found = next(path, depth);
	__asm__ volatile("nop" : "+r"(found) : : "memory");
	return found;
}
static NOINLINE long right(long path, int depth)
{
	long found = next(path, depth);
	__asm__ volatile("nop\n\tnop" : "+r"(found) : : "memory");
	return found;
}
int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval every = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	int status, ended = 0;

	most = atoi(argv[1]);
	interrupted_init();
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	setitimer(ITIMER_REAL, &every, NULL);
	for (long i = 0; i < 200000; i++)
		next(i % 100000, 20);
	setitimer(ITIMER_REAL, &never, NULL);
	for (; wait(&status) > 0; ended++)
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(ended == forks);
	return most > 0 && forks == 0 ? 77 : 0;
}
"""


@pytest.mark.parametrize("mode", ["exact", "sample"])
def test_a_child_that_goes_on_inside_the_recorder_does_so_in_a_copy(mode, record, report_json, scratch):
    """Children shared the tables of their parent: lookups in them never ended, and calls were counted twice."""
    program = compile_c(
        scratch, "grows", FORKS_WHILE_TABLES_GROW, "-D_GNU_SOURCE", f"-I{INCLUDE.parent / 'tests' / 'targets'}"
    )
    calls = {}
    for children in ("0", "60"):
        run = record([program, children], "--mode", mode)
        if run.returncode == 77:
            pytest.skip("no signal came inside the recorder")
        assert (run.returncode, run.stderr) == (0, "")
        process = report_json(run.path)["processes"][0]
        calls[children] = (process["calls"], process["total_bytes"])
    assert mode == "sample" or calls["60"] == calls["0"]


# The child's first hook runs in a thread, on a stack that its parent left, while the main thread calls free.
FREES_WHILE_A_PROFILE_BEGINS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile nothing, *volatile kept;
static volatile int is_child, done;
static void *begin(void *unused)
{
	for (int i = 0; i < 1000 && is_child; i++)
		kept = malloc(100000), free(kept);
	done = 1;
	return unused;
}
int main(void)
{
	pthread_t thread;
	int status;
	for (int i = 0; i < 200000; i++)
		kept = malloc(100);
	pthread_create(&thread, NULL, begin, NULL);
	pthread_join(thread, NULL);
	if (fork() == 0) {
		is_child = 1, done = 0;
		pthread_create(&thread, NULL, begin, NULL);
		while (!done)
			free(nothing);
		pthread_join(thread, NULL);
		_exit(0);
	}
	return wait(&status) < 0 || status != 0;
}
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_thread_of_a_child_frees_while_another_leaves_the_profile_of_the_parent(record, report_json, scratch):
    """It looked for its block among the parent's samples, which were being unmapped. strace makes that take longer."""
    program = compile_c(scratch, "frees", FREES_WHILE_A_PROFILE_BEGINS, "-pthread")
    slowly = ["strace", "-f", "-qq", "-o", scratch / "log", "-e", "trace=munmap", "-e", "inject=munmap:delay_exit=30000"]
    run = record([*slowly, program], "--mode", "sample", "--interval", "4K")
    assert (run.returncode, run.stderr) == (0, "")
    assert sum(p["calls"] >= 1000 for p in report_json(run.path)["processes"]) >= 2
