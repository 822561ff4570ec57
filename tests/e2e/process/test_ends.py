# SPDX-License-Identifier: Apache-2.0
"""Every end of every process: the recording holds what was allocated, and says how it ended or that it does not know."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, ended, is_alive, wait_for

# Ends in the way that it is told, after 50 blocks of which 49 are left; "child HOW" does so in a fork's child.
ENDS = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(const char *how, char **argv)
{
	void *volatile p = NULL;
	for (int i = 0; i < 50; i++) p = malloc(64);
	free(p);
	if (!strcmp(how, "exit")) exit(11);
	if (!strcmp(how, "_exit")) _exit(12);
	if (!strcmp(how, "quick_exit")) quick_exit(13);
	if (!strcmp(how, "abort")) abort();
	if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
	if (!strcmp(how, "term")) raise(SIGTERM);
	if (!strcmp(how, "kill")) raise(SIGKILL);
	if (!strcmp(how, "exec")) execl("/bin/sh", "sh", "-c", "exit 14", NULL);
	_exit(99);
}
int main(int argc, char **argv)
{
	int status;
	pid_t pid;
	if (strcmp(argv[1], "child")) end(argv[1], argv);
	pid = fork();
	if (pid == 0) end(argv[2], argv);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) ;
	return 0;
}
"""

HOW = [
    ("exit", "exit", 11),
    ("_exit", "exit", 12),
    ("quick_exit", "exit", 13),
    ("abort", "signal", signal.SIGABRT),
    ("segv", "signal", signal.SIGSEGV),
    ("term", "signal", signal.SIGTERM),
    ("kill", "killed", signal.SIGKILL),
    ("exec", "exec", None),
]


@pytest.fixture
def ends(scratch):
    return compile_c(scratch, "ends", ENDS)


def expect_whole(process):
    assert process["calls"] == 50 and process["frees"] == 1
    assert (process["not_freed_blocks"], process["not_freed_bytes"]) == (49, 49 * 64)
    assert process["peak_bytes"] == 50 * 64


@pytest.mark.parametrize("how, end, code", HOW, ids=[row[0] for row in HOW])
def test_the_program_itself(how, end, code, ends, record, report_json):
    run = record([ends, how])
    expected = {"exit": code, "exec": 14}.get(end, -(code or 0))
    assert run.returncode == expected, run.stderr
    process = report_json(run.path)["processes"][0]
    assert (process["end"], process["exit_code"]) == (end, code)
    expect_whole(process)


@pytest.mark.parametrize("how, end, code", HOW, ids=[row[0] for row in HOW])
def test_a_child_of_the_program(how, end, code, ends, record, report_json):
    run = record([ends, "child", how])
    assert run.returncode == 0, run.stderr
    process = report_json(run.path)["processes"][1]
    expect_whole(process)
    assert ended(process, end, code)


def test_what_an_exec_leaves_for_an_unrecordable_program_ends_there(record, report_json, scratch):
    """The new program is static: it never says hello, and is not taken for the old one."""
    static = compile_c(scratch, "static", "#include <unistd.h>\nint main(void) { usleep(700000); return 5; }\n", "-static")
    program = compile_c(
        scratch, "becomes", '#include <stdlib.h>\n#include <unistd.h>\nint main(int c, char **v) {\n'
        "void *volatile p = malloc(123); (void)p; usleep(200000); execl(v[1], v[1], NULL); return 99; }\n",
    )
    run = record([program, static])
    assert run.returncode == 5, run.stderr
    process = report_json(run.path)["processes"][0]
    assert (process["end"], process["exit_code"]) == ("exec", None)
    assert process["not_freed_bytes"] == 123
    assert process["duration_ns"] < 600e6, "the static program's time is not its own"


# ---- the OOM killer ----

GREEDY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	for (unsigned long taken = 0;; taken += 100000) {
		char *p = malloc(100000);
		if (!p) return 1;
		memset(p, 1, 100000);
		if (taken % 1000000 == 0) { printf("ACKNOWLEDGED %lu\n", taken); fflush(stdout); }
	}
}
"""


@pytest.fixture
def memory_cgroup():
    """A memory cgroup (v1) of 48 MiB for this test alone."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    folder = root / f"heapgauge-test-{os.getpid()}"
    if not (root / "memory.limit_in_bytes").exists():
        pytest.skip("no memory cgroup (v1) is mounted here")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(48 << 20))
    except OSError as reason:
        pytest.skip(f"cannot make a memory cgroup here: {reason}")
    yield folder
    wait_for(lambda: not (folder / "tasks").read_text(), "the cgroup to be empty")
    folder.rmdir()


def test_the_oom_killer_leaves_everything_that_was_acknowledged(memory_cgroup, scratch, record, report_json):
    greedy = compile_c(scratch, "greedy", GREEDY)
    run = record(["sh", "-c", f"echo $$ > {memory_cgroup}/tasks; exec {greedy}"])
    assert run.returncode == -signal.SIGKILL, run.stderr
    acknowledged = int(run.stdout.split()[-1])
    assert acknowledged > 10_000_000
    shell, process = report_json(run.path)["processes"]
    assert shell["end"] == "exec"
    assert (process["end"], process["exit_code"]) == ("killed", signal.SIGKILL)
    assert process["not_freed_bytes"] >= acknowledged
    assert process["not_freed_bytes"] < 48 << 20
    sites = report_json(run.path, "sites")["sites"]
    assert any(f["function"] == "main" for f in sites[0]["stack"]) and sites[0]["not_freed_bytes"] >= acknowledged


@pytest.mark.parametrize("options, announced", [([], True), (["--budget", "2MiB"], False), (["-q"], False)])
def test_record_reports_before_a_run_how_much_of_a_control_group_it_may_use(memory_cgroup, heapgauge, clean_env, scratch, options, announced):
    words = ["sh", "-c", f'echo $$ > {memory_cgroup}/tasks; exec "$@"', "sh", heapgauge, "record", *options, "-o", scratch / "run.hg", "true"]
    done = subprocess.run(words, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    found = re.search(r"control group has ([\d.]+) MiB of 48\.0 MiB left; recording may use up to ([\d.]+) MiB of it", done.stderr)
    assert bool(found) == announced, done.stderr
    assert not found or float(found[2]) <= float(found[1]) / 10 + 0.1


# ---- exits while heapgauge takes an image ----

# Two threads end it, one after the other.
TWO_ENDS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *end(void *unused) { usleep(20000); _exit(3); return unused; }
int main(void)
{
	pthread_t thread;
	void **last = NULL;
	for (int i = 0; i < 200000; i++) {
		void **next = malloc(40);
		*next = last;
		last = next;
	}
	return pthread_create(&thread, NULL, end, NULL);
}
"""

# A timer whose signal ends a process expires after it has called _exit, or exit, while it waits a second for
# heapgauge, which it stopped.
TIMED = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
static void *volatile kept;
int main(int argc, char **argv)
{
	struct itimerval soon = { .it_value.tv_usec = 800000, .it_interval.tv_usec = 1000 };
	(void)argv;
	kept = malloc(1000);
	kill(getppid(), SIGSTOP);
	if (setitimer(ITIMER_REAL, &soon, NULL)) return 1;
	if (argc > 1) _exit(12);
	return 12;
}
"""


def record_image(heapgauge, env, scratch, *argv):
    argv = [heapgauge, "record", "-q", "--image", "-o", scratch / "x.hg", "--", *argv]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def test_the_status_is_that_of_the_first_thread_that_exits(heapgauge, clean_env, scratch):
    """Also if another one calls _exit while the first one waits."""
    program = compile_c(scratch, "two_ends", TWO_ENDS, "-pthread")
    for _ in range(5):
        done = record_image(heapgauge, clean_env, scratch, program)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("how", [[], ["_exit"]], ids=["return", "_exit"])
def test_a_timer_does_not_end_what_has_ended(how, heapgauge, clean_env, scratch):
    program = compile_c(scratch, "timed", TIMED)
    argv = [heapgauge, "record", "-q", "--image", "-o", scratch / "x.hg", "--", program, *how]
    with subprocess.Popen(argv, env=clean_env) as run:
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")

        def has_ended():
            states = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children.read_text().split()]
            return states == ["Z"]

        wait_for(has_ended, "the program to end")
        run.send_signal(signal.SIGCONT)
        assert run.wait(timeout=WAIT_SECONDS) == 12


# ---- the collector is killed ----


def test_a_killed_collector_leaves_the_program_untouched(heapgauge, scratch, clean_env):
    program = compile_c(
        scratch, "survivor", "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) {\n"
        'unsigned long sum = 0; puts("begun"); fflush(stdout); getchar();\n'
        "for (int i = 0; i < 200000; i++) { char *volatile p = malloc(i % 900 + 1); *p = 1; sum += *p; if (i % 8) free(p); }\n"
        'printf("sum %lu\\n", sum); return 17; }\n',
    )
    log = scratch / "status"
    # The shell stays behind to tell the status: the program's own parent is what we kill.
    with subprocess.Popen(
        [heapgauge, "record", "-q", "-o", scratch / "never.hg", "--", "sh", "-c", f"{program}; echo $? > {log}.new; mv {log}.new {log}"],
        env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:
        assert run.stdout.readline() == "begun\n"
        shell = int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text())
        run.kill()
        run.wait(WAIT_SECONDS)
        assert is_alive(shell)
        run.stdin.write("\n")
        run.stdin.flush()
        wait_for(log.exists, "the program's end")
        assert run.stdout.read() == "sum 200000\n"
        assert run.stderr.read() == "", "neither program nor recorder complained"
    assert log.read_text() == "17\n"
    assert not (scratch / "never.hg").exists()


# Its own file is removed, as an update of its package does; then it goes on for more than one snapshot.
REPLACED = r"""
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	unlink(argv[0]);
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(1000);
		(void)p;
		usleep(10000);
	}
	return 3;
}
"""


def test_a_program_whose_file_is_removed_is_recorded_to_its_end(record, report_json, scratch):
    run = record([compile_c(scratch, "replaced", REPLACED)])
    process = report_json(run.path)["processes"][0]
    assert (process["end"], process["exit_code"], process["calls"]) == ("exit", 3, 100)


HIDES = """
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void)
{
	void *volatile p = malloc(64);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	usleep(300000);
	for (int i = 0; i < 49; i++) p = malloc(64);
	return p == NULL ? 1 : 5;
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody who is not")
def test_a_program_that_hides_from_its_user_has_not_ended(build, heapgauge, scratch, clean_env, report_json):
    """Nobody's programs hand over a file, whose owner is found by its mappings."""
    place = pathlib.Path("/tmp") / f"heapgauge-hides-{os.getpid()}"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    try:
        for file in (heapgauge, build / "libheapgauge.so", compile_c(scratch, "hides", HIDES)):
            shutil.copy(file, place)
        for i in range(8):
            done = subprocess.run([place / "heapgauge", "record", "-q", "-o", place / f"{i}.hg", place / "hides"], env=clean_env, user=65534, group=65534,
                                  extra_groups=[], cwd="/", capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
            assert (done.returncode, done.stderr) == (5, "")
            process = report_json(place / f"{i}.hg")["processes"][0]
            assert (process["end"], process["exit_code"], process["calls"]) == ("exit", 5, 50)
    finally:
        shutil.rmtree(place)
