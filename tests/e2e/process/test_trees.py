# SPDX-License-Identifier: Apache-2.0
"""One recording holds a whole tree of processes, each with its parent, command, start and end."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from compiled import TELLS_ENDS, WAIT_SECONDS, compile_c, ended, is_alive, wait_for

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


def are(processes, expected):
    """Whether these are the calls and ends of the family's processes; stdio and the loader take nothing in it."""
    processes = sorted(processes, key=lambda p: p["calls"])
    return [p["calls"] for p in processes] == [calls for calls, _, _ in expected] and all(
        ended(p, end, code) for p, (_, end, code) in zip(processes, expected)
    )


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
    assert are(processes, expected), processes


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
    # The end of one may be seen only when the next has begun.
    assert first["duration_ns"] > max(forked["duration_ns"], leaf["duration_ns"])


def test_exec_over_itself_ends_the_old_image_as_exec(family, record, report_json):
    run = record([family, "become"])
    assert run.returncode == 3, run.stderr
    processes = report_json(run.path)["processes"]
    assert [(p["calls"], p["end"], p["exit_code"]) for p in processes] == [(10, "exec", None), (30, "exit", 3)]
    assert processes[0]["pid"] == processes[1]["pid"]


def test_a_word_that_children_does_not_know_is_a_usage_error(family, record):
    run = record([family, "leaf"], "--children", "some")
    assert run.returncode == 2
    assert "did you mean 'none'?" in run.stderr
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
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp,
    )


def test_a_daemon_is_waited_for_if_asked_and_that_is_said(heapgauge, clean_env, scratch, report_json):
    path = scratch / "daemon.hg"
    with start(heapgauge, path, [compile_c(scratch, "daemon", DAEMON), "1000"], clean_env, "--wait", "all") as run:
        output, errors = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 7, "the status of the program that was started"
    assert "1 descendant is still running" in errors.splitlines()[0]
    daemon = report_json(path)["processes"][-1]
    assert daemon["pid"] == int(output)
    assert daemon["calls"] >= 5 and daemon["duration_ns"] > 900e6
    # Whoever inherits the daemon may have waited for it before the kernel could be asked.
    assert (daemon["end"], daemon["exit_code"]) in [("exit", 9), ("unknown", None)]


def test_quiet_does_not_speak_of_descendants(record, scratch):
    run = record([compile_c(scratch, "daemon", DAEMON), "600"], "--wait", "all")
    assert run.stderr == ""


def test_a_second_signal_leaves_the_descendants_running(heapgauge, clean_env, scratch, report_json):
    """The daemon has left the group, so that no ^C reaches it; heapgauge goes, and what there is stays."""
    path = scratch / "left.hg"
    with start(heapgauge, path, [compile_c(scratch, "daemon", DAEMON), "60000"], clean_env, "--wait", "all") as run:
        pid = int(run.stdout.readline())
        try:
            assert "still running" in run.stderr.readline() and "Ctrl-C" in run.stderr.readline()
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
	alarm(900); /* a test that fails must not wait for ever */
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
    assert all(ended(p, "exit", i % 100) for i, p in enumerate(children))


def test_the_summary_lists_the_processes(heapgauge, clean_env, scratch, family):
    with start(heapgauge, scratch / "said.hg", [family, "fork", "exec"], clean_env) as run:
        _, errors = run.communicate(timeout=WAIT_SECONDS)
    assert re.search(r"^ +PID .*START.*END.*COMMAND$", errors, re.M), errors
    end = "exit 3" if TELLS_ENDS else "(exit 3|unknown)"
    assert re.search(rf" {end} +(\.\.\.)?/\S*family leaf$", errors, re.M), errors  # which program it is stands at the end of its path
    assert wait_for(lambda: (scratch / "said.hg").exists(), "the recording")


# ---- who is not recorded, and is told of ----

# Starts argv[2..] in the way that argv[1] says, waits for it and ends with 0; a start that fails is no failure.
STARTER = r"""
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
	const char *how = argv[1];
	char **program = argv + 2;
	pid_t pid;
	void *volatile block = malloc(100);
	(void)block;
	if (strcmp(how, "exec") == 0) execv(program[0], program);
	if (strcmp(how, "execvp") == 0) execvp(program[0], program);
	if (strcmp(how, "bypass") == 0) syscall(SYS_execve, program[0], program, environ);
	if (strcmp(how, "vfork") == 0 && vfork() == 0) { execv(program[0], program); _exit(0); }
	if (strcmp(how, "fork") == 0 && fork() == 0) { execv(program[0], program); _exit(0); }
	if (strcmp(how, "spawn") == 0) posix_spawn(&pid, program[0], NULL, NULL, program, environ);
	if (strcmp(how, "spawnp") == 0) posix_spawnp(&pid, program[0], NULL, NULL, program, environ);
	if (strcmp(how, "system") == 0) system(program[0]);
	if (strcmp(how, "popen") == 0) pclose(popen(program[0], "w"));
	while (wait(NULL) > 0) { }
	return 0;
}
"""
WAYS = ["exec", "execvp", "vfork", "fork", "spawn", "spawnp"]


@pytest.fixture
def starter(scratch):
    return compile_c(scratch, "starter", STARTER)


def warnings_of(run, report_json):
    assert run.returncode == 0, run.stderr
    return report_json(run.path)["warnings"]


@pytest.mark.parametrize("how", [*WAYS, "system", "popen"])
def test_a_static_program_that_is_started_is_missed_aloud(how, starter, heapgauge, record, report_json, scratch):
    static = compile_c(scratch, "still", "int main(void) { return 0; }", "-static")
    run = record([starter, how, static])
    assert warnings_of(run, report_json) == {"missed_static": 1}
    text = subprocess.run([heapgauge, "report", run.path], capture_output=True, text=True, check=True).stdout
    assert f"  ! 1 program was not recorded (statically linked): {static}\n" in text
    assert "nothing lost" not in text
    if how in ("exec", "execvp"):
        assert [p["end"] for p in report_json(run.path)["processes"]] == ["exec"]


def test_programs_that_are_missed_for_one_reason_are_told_of_together(starter, heapgauge, record, report_json, scratch):
    names = [compile_c(scratch, f"still{i}", "int main(void) { return 0; }", "-static") for i in range(5)]
    run = record(["sh", "-c", "; ".join(f"{name}; {name}" for name in names)])
    assert warnings_of(run, report_json) == {"missed_static": 10}
    text = subprocess.run([heapgauge, "report", run.path], capture_output=True, text=True, check=True).stdout
    assert f"10 programs were not recorded (statically linked): {names[0]}, {names[1]}, {names[2]} and others" in text


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("program", ["/nowhere/at/all", "/etc/passwd", "damaged", "/"])
def test_a_start_that_fails_is_no_loss(how, program, starter, record, report_json, scratch):
    """A shell looks through PATH by trying; a file that is no program is refused by the kernel, and execvp starts /bin/sh for it."""
    (scratch / "damaged").write_bytes(b"exit 0; this is no program")
    (scratch / "damaged").chmod(0o755)
    run = record([starter, how, scratch / program])
    assert warnings_of(run, report_json) == {}


@pytest.mark.parametrize("how", WAYS)
def test_a_program_that_is_started_and_recorded_is_no_loss(how, starter, family, record, report_json):
    run = record([starter, how, family, "leaf"])
    assert run.returncode == (3 if "exec" in how else 0)
    summary = report_json(run.path)
    assert summary["warnings"] == {}
    assert 30 in [p["calls"] for p in summary["processes"]]


def test_a_program_that_is_killed_before_it_begins_is_told_of(starter, record, report_json, scratch):
    """It could not even be loaded: a library is missing."""
    lib = compile_c(scratch, "libgone.so", "int gone(void) { return 0; }", "-shared", "-fPIC")
    needs = compile_c(scratch, "needs", "int main(void) { return 0; }", "-Wl,--no-as-needed", lib)
    lib.unlink()
    run = record([starter, "spawn", needs])
    assert warnings_of(run, report_json) == {"missed_unconnected": 1}


def test_a_program_started_by_a_system_call_of_its_own_is_told_of(starter, record, report_json):
    run = record([starter, "bypass", "/bin/sleep", "1"])
    assert warnings_of(run, report_json) == {"missed_bypassed": 1}
    assert [p["end"] for p in report_json(run.path)["processes"]] == ["exec"]


@pytest.mark.parametrize("children", ["fork", "none"])
def test_programs_that_are_not_wanted_are_not_missed(children, starter, record, report_json, scratch):
    static = compile_c(scratch, "still", "int main(void) { return 0; }", "-static")
    for how, program in [("fork", [static]), ("bypass", ["/bin/sleep", "0.3"])]:
        run = record([starter, how, *program], "--children", children)
        assert warnings_of(run, report_json) == {}


def test_no_socket_stays_behind(record, starter, family):
    before = set(pathlib.Path("/tmp").glob("heapgauge-*"))
    record([starter, "spawn", family, "leaf"])
    assert {p for p in set(pathlib.Path("/tmp").glob("heapgauge-*")) - before if p.is_socket()} == set()


BESIDE_A_SHELL = r"""
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void *shell(void *command) { system(command); return NULL; }
int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;
	int begun[2], go_on[2], i;
	pipe(begun), pipe(go_on), dup2(begun[1], 7), dup2(go_on[0], 8);
	pthread_create(&thread, NULL, shell, "echo >&7; read x <&8");
	read(begun[0], &byte, 1);
	for (i = 1; i < argc; i++) {
		char *program[] = { argv[i], NULL };
		pid_t pid;
		posix_spawn(&pid, program[0], NULL, NULL, program, environ);
		waitpid(pid, NULL, 0);
	}
	write(go_on[1], "\n", 1);
	pthread_join(thread, NULL);
	return 0;
}
"""
VARIABLES = r"""
#include <stdio.h>
#include <string.h>
extern char **environ;
int main(void)
{
	for (char **entry = environ; *entry; entry++)
		if (strncmp(*entry, "LD_PRELOAD", 10) == 0 || strncmp(*entry, "HEAPGAUGE", 9) == 0) puts(*entry);
	return 0;
}
"""


def test_programs_that_are_started_beside_a_shell_get_no_variables_of_the_shell(record, report_json, scratch):
    program = compile_c(scratch, "beside", BESIDE_A_SHELL, "-pthread")
    static = compile_c(scratch, "static", VARIABLES, "-static")
    dynamic = compile_c(scratch, "dynamic", VARIABLES)
    run = record([program, static, dynamic])
    assert run.stdout == ""
    assert warnings_of(run, report_json) == {"missed_static": 1}
    commands = [p["command"] for p in report_json(run.path)["processes"]]
    assert len(commands) == 3 and str(dynamic) in commands, commands


def test_a_program_that_preloads_a_sanitizer_is_missed_aloud(record, report_json, scratch):
    """Its runtime ends the program if another library comes before it."""
    program = compile_c(scratch, "plain", VARIABLES)
    library = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    run = record(["env", f"LD_PRELOAD={library}", program])
    assert run.stdout == f"LD_PRELOAD={library}\n", run.stderr
    assert warnings_of(run, report_json) == {"missed_sanitized": 1}
