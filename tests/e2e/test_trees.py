# SPDX-License-Identifier: Apache-2.0
"""One recording holds a whole tree of processes, each with its parent, command, start and end."""

import os
import re
import signal
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS, compile_c, is_alive, wait_for

# Takes 10 blocks, then acts its part: "fork" has a child that takes 20, "exec" starts itself as "leaf", which takes 30,
# "become" turns into a leaf.
FAMILY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void take(int n) { while (n-- > 0) { void *volatile p = malloc(100); (void)p; } }
static int wait_for(pid_t pid) { int s; waitpid(pid, &s, 0); return WEXITSTATUS(s); }
int main(int argc, char **argv)
{
	if (strcmp(argv[1], "leaf") == 0) { take(30); return 3; }
	take(10);
	for (int i = 1; i < argc; i++) {
		pid_t pid;
		if (strcmp(argv[i], "become") == 0) execl(argv[0], argv[0], "leaf", NULL);
		pid = fork();
		if (pid == 0 && strcmp(argv[i], "fork") == 0) { take(20); _exit(2); }
		if (pid == 0) { execl(argv[0], argv[0], "leaf", NULL); _exit(99); }
		if (wait_for(pid) != (strcmp(argv[i], "fork") == 0 ? 2 : 3)) return 98;
	}
	return 0;
}
"""


@pytest.fixture
def family(scratch):
    return compile_c(scratch, "family", FAMILY)


def own(processes):
    """Calls and ends of the family's processes; stdio and the loader take nothing in it."""
    return sorted((p["calls"], p["end"], p["exit_code"]) for p in processes)


@pytest.mark.parametrize(
    "children, expected",
    [
        ("all", [(0, "exec", None), (10, "exit", 0), (20, "exit", 2), (30, "exit", 3)]),
        ("fork", [(0, "exit", 3), (10, "exit", 0), (20, "exit", 2)]),
        ("exec", [(10, "exit", 0), (30, "exit", 3)]),
        ("none", [(10, "exit", 0)]),
    ],
)
def test_children_chooses_which_descendants_are_recorded(children, expected, family, record, report_json):
    run = record([family, "fork", "exec"], "--children", children)
    assert run.returncode == 0, run.stderr
    processes = report_json(run.path)["processes"]
    if children in ("all", "fork"):
        # The copy that becomes a leaf allocates nothing itself: whether it says hello before is its own affair.
        processes = [p for p in processes if p["calls"] > 0]
        expected = [row for row in expected if row[0] > 0]
    assert own(processes) == expected


def test_each_process_is_named_with_parent_command_start_and_end(family, record, report_json):
    began = time.monotonic()
    run = record([family, "fork", "exec"])
    took_ns = (time.monotonic() - began) * 1e9
    processes = [p for p in report_json(run.path)["processes"] if p["calls"] > 0]
    first, forked, leaf = processes
    assert [p["calls"] for p in processes] == [10, 20, 30], "in the order of their start"
    assert first["command"] == f"{family} fork exec" == forked["command"]
    assert leaf["command"] == f"{family} leaf"
    assert forked["ppid"] == first["pid"] == leaf["ppid"]
    assert len({p["pid"] for p in processes}) == 3
    assert first["started_offset_ns"] < forked["started_offset_ns"] < leaf["started_offset_ns"]
    for p in processes:
        assert 0 < p["duration_ns"] and p["started_offset_ns"] + p["duration_ns"] < took_ns
    assert first["duration_ns"] > forked["duration_ns"] + leaf["duration_ns"]


def test_exec_over_itself_ends_the_old_image_as_exec(family, record, report_json):
    run = record([family, "become"])
    assert run.returncode == 3, run.stderr
    processes = report_json(run.path)["processes"]
    assert [(p["calls"], p["end"], p["exit_code"]) for p in processes] == [(10, "exec", None), (30, "exit", 3)]
    assert processes[0]["pid"] == processes[1]["pid"]


def test_a_word_that_children_does_not_know_is_a_usage_error(family, record):
    run = record([family, "leaf"], "--children", "some")
    assert run.returncode == 2
    assert "all, fork, exec or none" in run.stderr
    assert not run.path.exists()


def test_heapgauge_below_heapgauge_is_not_recorded_but_its_program_is_by_it(heapgauge, family, record, report_json, scratch):
    inner = scratch / "inner.hg"
    run = record([heapgauge, "record", "-q", "-o", inner, "--", family, "leaf"], "--children", "all")
    assert run.returncode == 125, "nothing but heapgauge ran below the outer one"
    assert report_json(inner)["processes"][0]["calls"] == 30


DAEMON = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	if (fork() != 0) _exit(7);
	setsid();
	if (fork() != 0) _exit(0);
	for (int i = 0; i < 5; i++) { void *volatile p = malloc(1000); (void)p; }
	printf("%d\n", getpid());
	fflush(stdout);
	usleep(atoi(argv[1]) * 1000);
	_exit(9);
}
"""


def start(heapgauge, path, argv, env, *options):
    return subprocess.Popen(
        [heapgauge, "record", "-o", path, *options, "--", *argv],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
    )


def test_a_daemon_is_waited_for_and_that_is_said(heapgauge, clean_env, scratch, report_json):
    path = scratch / "daemon.hg"
    with start(heapgauge, path, [compile_c(scratch, "daemon", DAEMON), "1000"], clean_env) as run:
        output, errors = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 7, "the status of the program that was started"
    assert "1 descendant lives on" in errors.splitlines()[0]
    daemon = report_json(path)["processes"][-1]
    assert daemon["pid"] == int(output)
    assert daemon["calls"] >= 5 and daemon["duration_ns"] > 900e6
    # Whoever inherits the daemon may have waited for it before the kernel could be asked.
    assert (daemon["end"], daemon["exit_code"]) in [("exit", 9), ("unknown", None)]


def test_quiet_does_not_speak_of_descendants(record, scratch):
    run = record([compile_c(scratch, "daemon", DAEMON), "600"])
    assert run.stderr == ""


def test_a_second_signal_leaves_the_descendants_running(heapgauge, clean_env, scratch, report_json):
    """The daemon has left the group, so that no ^C reaches it; heapgauge goes, and what there is stays."""
    path = scratch / "left.hg"
    with start(heapgauge, path, [compile_c(scratch, "daemon", DAEMON), "60000"], clean_env) as run:
        pid = int(run.stdout.readline())
        try:
            assert "lives on" in run.stderr.readline()
            os.kill(run.pid, signal.SIGINT)  # there is no program left that it could be passed on to
            assert run.wait(WAIT_SECONDS) == 7
            assert is_alive(pid)
        finally:
            os.kill(pid, signal.SIGKILL)
    daemon = report_json(path)["processes"][-1]
    assert (daemon["pid"], daemon["end"], daemon["exit_code"]) == (pid, "running", None)
    assert daemon["calls"] >= 5


STUBBORN = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int seen;
static void on(int number) { (void)number; seen++; }
int main(void)
{
	signal(SIGINT, on);
	alarm(50); /* a test that fails must not wait for ever */
	void *volatile p = malloc(77); (void)p;
	puts("ready"); fflush(stdout);
	for (int told = 0;;) { usleep(5000); while (told < seen) { told++; puts("seen"); fflush(stdout); } }
}
"""


def test_the_first_signal_is_the_programs_and_the_second_ours(heapgauge, clean_env, scratch, report_json):
    path = scratch / "stubborn.hg"
    with start(heapgauge, path, [compile_c(scratch, "stubborn", STUBBORN)], clean_env, "-q") as run:
        assert run.stdout.readline() == "ready\n"
        program = int(open(f"/proc/{run.pid}/task/{run.pid}/children").read())
        try:
            os.kill(run.pid, signal.SIGINT)
            assert run.stdout.readline() == "seen\n", "passed on once"
            assert run.poll() is None
            os.kill(run.pid, signal.SIGINT)
            assert run.wait(WAIT_SECONDS) == 128 + signal.SIGINT
            assert is_alive(program), "the second one is not passed on"
        finally:
            os.kill(program, signal.SIGKILL)
    process = report_json(path)["processes"][0]
    assert (process["end"], process["calls"] >= 1) == ("running", True)


MANY = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	for (int i = 0; i < atoi(argv[1]); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			for (int j = 0; j < 3000; j++) { void *volatile p = malloc(j % 700); if (j % 3) free(p); }
			_exit(i % 100);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}
"""


def mapped_profiles(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return sum("memfd:heapgauge-profile" in line for line in maps)


def test_hundreds_of_processes_do_not_keep_their_memory(heapgauge, clean_env, scratch, report_json):
    path, count, most = scratch / "many.hg", 300, 0
    with start(heapgauge, path, [compile_c(scratch, "many", MANY), str(count)], clean_env, "-q") as run:
        while run.poll() is None:
            try:
                most = max(most, mapped_profiles(run.pid))
            except (FileNotFoundError, ProcessLookupError):
                break
            time.sleep(0.02)
        assert run.wait(WAIT_SECONDS) == 0
    assert most < count / 4, f"{most} profiles were held at one time"
    children = [p for p in report_json(path, "summary", "--no-symbols")["processes"] if p["calls"] == 3000]
    assert len(children) == count
    assert [p["exit_code"] for p in children] == [i % 100 for i in range(count)]
    assert {p["end"] for p in children} == {"exit"}


def test_the_summary_lists_the_processes(heapgauge, clean_env, scratch, family):
    with start(heapgauge, scratch / "said.hg", [family, "fork", "exec"], clean_env) as run:
        _, errors = run.communicate(timeout=WAIT_SECONDS)
    assert re.search(r"^ +PID .*START.*END.*COMMAND$", errors, re.M), errors
    assert re.search(rf" exit +{re.escape(str(family))} leaf$", errors, re.M), errors
    assert wait_for(lambda: (scratch / "said.hg").exists(), "the recording")
