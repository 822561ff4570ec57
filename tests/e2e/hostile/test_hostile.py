# SPDX-License-Identifier: Apache-2.0
"""Places where little works: the program's output, status and files are those of a bare run, and losses are said.

What needs root or name spaces says so when it is skipped.
"""

import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import pytest

from compiled import WAIT_SECONDS, compile_c
from reading import losses_said

LOADER = "/lib64/ld-linux-x86-64.so.2"
NOT_RECORDED = ("unregistered_calls", "early_calls", "reentrant_calls")
ROOT = os.geteuid() == 0
CALL_NUMBERS = {
    "mprotect": 10, "madvise": 28, "getpid": 39, "prctl": 157, "gettid": 186, "futex": 202, "clock_gettime": 228, "tgkill": 234
}  # fmt: skip
needs_root = pytest.mark.skipif(not ROOT, reason="needs root: name spaces, mounts, chroot, other users")

# Takes 20,000 blocks from 50 stacks, frees two thirds, says so and ends with 4; the first argument is what it does before.
SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long calls, bytes, live;
static void *kept[30000];
static int out = 1;

__attribute__((noinline)) static void *take(size_t n)
{
	void *volatile p = malloc(n);
	if (!p) _exit(90);
	calls++, bytes += n, live += n;
	return p;
}
__attribute__((noinline)) static void *deeper(int depth, size_t n)
{
	void *volatile p = depth > 0 ? deeper(depth - 1, n) : take(n);
	return p;
}
static void work(int count)
{
	for (int i = 0; i < count; i++) kept[i] = deeper(i % 50, i % 200);
	for (int i = 0; i < count; i++)
		if (i % 3) free(kept[i]), live -= i % 200;
}
static void *in_thread(void *argument)
{
	work(500);
	return argument;
}
static void say(void)
{
	char line[200];
	int n = snprintf(line, sizeof line, "CALLS %lu BYTES %lu LIVE %lu\n", calls, bytes, live);
	if (write(out, line, n) != n) _exit(91);
}
static void say_number(void)
{
	char digit[] = "result is 0\n";
	digit[10] += out;
	if (write(out, digit, 12) != 12) _exit(89);
}
static void only(const int *numbers, int count, unsigned otherwise)
{
	struct sock_filter code[64];
	int n = 0;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < count; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
	struct sock_fprog program = { n, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(92);
}
static void never(const int *numbers, int count)
{
	struct sock_filter code[64];
	int n = 0;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < count; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { n, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) _exit(88);
}
static void grow_once(void)
{
	mallopt(M_TRIM_THRESHOLD, 64 << 20), mallopt(M_TOP_PAD, 32 << 20), mallopt(M_MMAP_THRESHOLD, 64 << 20);
	void *volatile grown = malloc(1 << 20);
	calls++, bytes += 1 << 20;
	free(grown);
}
static int ended(pid_t child)
{
	int status;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (strcmp(mode, "file") == 0) {
		out = open("result", O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (out < 0) _exit(93);
		say_number();
	}
	if (strcmp(mode, "close") == 0) {
		if (close_range(0, ~0u, 0)) _exit(94);
		out = open("result", O_WRONLY | O_CREAT | O_TRUNC, 0600);
		say_number();
	}
	if (strcmp(mode, "few") == 0) {
		struct rlimit three = { 3, 3 };
		if (setrlimit(RLIMIT_NOFILE, &three)) _exit(95);
		work(1000);
		pid_t child = fork();
		if (child == 0) { work(2000); say(); _exit(7); }
		int status;
		waitpid(child, &status, 0);
		if (WEXITSTATUS(status) != 7) _exit(96);
	}
	if (strcmp(mode, "strict") == 0) {
		grow_once();
		if (argc > 2) work(3000);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(97);
		work(10000); say();
		syscall(SYS_exit, 5);
	}
	if (strcmp(mode, "eperm") == 0) {
		static const int allowed[] = { SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap };
		only(allowed, 7, SECCOMP_RET_ERRNO | EPERM);
		work(30000); say(); _exit(6);
	}
	if (strcmp(mode, "kill memory") == 0) { /* from a filter's word on, nothing but what work() needs itself */
		static const int denied[] = { SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_rt_sigprocmask,
			SYS_gettid, SYS_getpid, SYS_tgkill, SYS_prctl, SYS_readlink, SYS_openat, SYS_socket, SYS_connect };
		grow_once();
		work(1000);
		never(denied, sizeof denied / sizeof *denied);
	}
	if (strcmp(mode, "kill socket") == 0) { /* so that neither child nor program could reach us */
		static const int denied[] = { SYS_socket, SYS_connect, SYS_sendto, SYS_recvmsg };
		never(denied, 4);
		pid_t child = fork();
		if (child == 0) { work(2000); say(); _exit(7); }
		if (ended(child) != 7) _exit(86);
		child = fork();
		if (child == 0) { execl(argv[0], argv[0], NULL); _exit(85); }
		if (ended(child) != 4) _exit(84);
	}
	if (strcmp(mode, "kill one") == 0) { /* of which the child needs none itself; argv[2] is its number */
		int denied = atoi(argv[2]);
		grow_once();
		never(&denied, 1);
		pid_t child = fork();
		if (child == 0) { work(500); _exit(7); }
		if (ended(child) != 7) _exit(82);
		child = argc > 3 ? fork() : 0;
		if (child == 0 && argc > 3) { execl(argv[0], argv[0], NULL); _exit(85); }
		if (argc > 3 && ended(child) != 4) _exit(81);
		_exit(4);
	}
	if (strcmp(mode, "kill exec") == 0) { /* a child that looks at no file before it becomes a program */
		static const int denied[] = { SYS_newfstatat, SYS_fgetxattr, SYS_geteuid, SYS_socket };
		never(denied, 2);
		pid_t child = vfork();
		if (child == 0) { char *none[] = { argv[0], NULL }; execv(argv[0], none); _exit(85); }
		_exit(ended(child) == -SIGSYS ? 4 : 83); /* the loader itself asks for files by fstatat */
	}
	if (strcmp(mode, "thread") == 0) {
		pthread_t t;
		if (pthread_create(&t, NULL, in_thread, NULL)) _exit(98);
		pthread_join(t, NULL);
	}
	work(20000);
	say();
	return 4;
}
"""


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """The program, where every user can read it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-test-"))
    folder.chmod(0o755)
    yield compile_c(folder, "hostile", SOURCE)
    shutil.rmtree(folder)


def in_namespace(script):
    """argv of a shell script in a mount name space of its own."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"set -e; {script}"]


@pytest.fixture(scope="session")
def namespaces():
    """Whether mounts may be made in a name space of one's own."""
    if not ROOT:
        pytest.skip("needs root: mounts in a name space of its own")
    done = subprocess.run(in_namespace("mount -t tmpfs none /mnt"), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs a mount name space: {done.stderr.strip()}")


def files_in(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def both(record, clean_env, scratch):
    """both(argv, *options): runs it bare and recorded, each in a folder named `work`; returns the recording."""

    def run(argv, *options, status=4):
        folder, seen = scratch / "work", []
        for recorded in (False, True):
            folder.mkdir()
            if recorded:
                done = record(argv, *options, cwd=folder)
            else:
                done = subprocess.run(
                    argv, env=clean_env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_SECONDS,
                    check=False,
                )  # fmt: skip
            files = files_in(folder)
            for path in folder.glob("result*"):
                done.stdout += path.read_text()
            seen.append((done.returncode, done.stdout, done.stderr, files))
            shutil.rmtree(folder)
        bare, under = seen
        assert bare[0] == status, f"bare: {bare}"
        assert under == bare
        return done

    return run


def truths(text):
    """What the program and its children counted: (calls, bytes, live)."""
    return [tuple(map(int, found)) for found in re.findall(r"CALLS (\d+) BYTES (\d+) LIVE (\d+)", text)]


def profiles_of(summary):
    return [p for p in summary["processes"] if pathlib.PurePath(p["command"].split()[0]).name == "hostile"]


def said_by(summary):
    """Every word about a loss."""
    return dict(summary["warnings"]) | {k: v for p in summary["processes"] for k, v in p["health"].items()}


def is_exact(run, report_json):
    """All that the program did was recorded."""
    summary = report_json(run.path)
    assert said_by(summary) == {}
    [process] = profiles_of(summary)
    assert [(process["calls"], process["total_bytes"], process["not_freed_bytes"])] == truths(run.stdout)
    assert process["end"] == "exit"
    return process


def notes_of(heapgauge, path):
    done = subprocess.run([heapgauge, "report", path], capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    return losses_said(done.stdout)


def is_accounted_for(run, report_json):
    """Every call was recorded or is counted as not recorded; where details are lost, somebody says so."""
    summary = report_json(run.path)
    [process] = profiles_of(summary)
    [(calls, total, live)] = truths(run.stdout)
    # A call that is not recorded may be a free.
    missed = sum(process["health"].get(name, 0) for name in NOT_RECORDED)
    assert process["calls"] <= calls <= process["calls"] + missed
    if (process["calls"], process["total_bytes"], process["not_freed_bytes"]) != (calls, total, live):
        assert process["health"]
    return process


def shell(script):
    return ["sh", "-c", script]


def test_target_that_closes_every_descriptor_is_recorded(hostile, both, report_json):
    run = both([hostile, "close"])
    assert run.stdout.startswith("result is 0\n")
    is_exact(run, report_json)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_target_without_standard_streams_gets_the_numbers_that_it_gets_without_us(streams, hostile, both, report_json):
    run = both(shell(f"exec {hostile} file {streams}"))
    first = min({"<": 0, ">": 1, "2": 2}[word[0]] for word in streams.split())
    assert run.stdout.startswith(f"result is {first}\n")
    is_exact(run, report_json)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_heapgauge_without_standard_streams_records(streams, heapgauge, hostile, clean_env, scratch, report_json):
    path = scratch / "run.hg"
    done = subprocess.run(
        shell(f"exec {heapgauge} record -q -o {path} -- {hostile} file {streams}"),
        cwd=scratch, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")
    done.path, done.stdout = path, (scratch / "result").read_text()
    is_exact(done, report_json)


@pytest.mark.parametrize("limit", ["-n 16", "-n 6", "-s 256", "-s 128", "-s 64", "-c 0", "-l 0", "-u 1000"])
def test_target_below_a_limit_is_recorded(limit, hostile, both, report_json):
    is_exact(both(shell(f"ulimit {limit}; exec {hostile}")), report_json)


@pytest.mark.parametrize("kib", [4 << 20, 1 << 20, 256 << 10, 64 << 10])
def test_target_below_a_limit_of_address_space_is_recorded(kib, hostile, both, report_json):
    is_exact(both(shell(f"ulimit -v {kib}; exec {hostile}")), report_json)


def is_recorded_or_missed_aloud(run, report_json):
    """A program that could not be recorded at all is named as such, or at least a loss is."""
    summary = report_json(run.path)
    if profiles_of(summary):
        is_accounted_for(run, report_json)
    else:
        assert said_by(summary)


def test_target_below_a_narrow_limit_of_address_space_is_recorded_or_missed_aloud(hostile, both, report_json):
    is_recorded_or_missed_aloud(both(shell(f"ulimit -v {32 << 10}; exec {hostile}")), report_json)


def test_target_below_a_limit_of_file_size_is_recorded_or_missed_aloud(hostile, record, report_json):
    """It may have no file of that size, nor a memfd: its memory is copied while it lives, which may be too short."""
    run = record(shell(f"ulimit -f 0; exec {hostile}"))
    assert run.returncode == 4 and truths(run.stdout)
    summary = report_json(run.path)
    assert profiles_of(summary) or said_by(summary) or "could not be written" in run.stderr


def test_no_process_below_a_limit_of_file_size_is_passed_over_in_silence(hostile, record, report_json):
    """Its profile is in its own memory only, and goes with it: the recording did not say so."""
    run = record(shell(f"ulimit -f 0; for i in 1 2 3; do {hostile} | cat; done"))
    summary = report_json(run.path)
    assert len(summary["processes"]) + sum(summary["warnings"].values()) >= 7, summary["warnings"]


def test_target_without_room_for_the_recorder_is_missed_aloud(heapgauge, hostile, both, report_json):
    run = both(shell(f"ulimit -v 16384; exec {hostile}"))
    assert report_json(run.path)["warnings"] == {"missed_unconnected": 1}
    assert profiles_of(report_json(run.path)) == []
    notes = notes_of(heapgauge, run.path)
    assert len(notes) == 1 and notes[0].startswith("1 program was not recorded") and str(hostile) in notes[0], notes


def test_target_with_one_descriptor_is_recorded_in_a_file(hostile, both, report_json):
    """It cannot send one while it holds another: the collector finds its file."""
    is_accounted_for(both(shell(f"ulimit -n 4; exec {hostile}")), report_json)


def test_target_with_one_descriptor_beside_the_socket_is_recorded(hostile, both, report_json):
    is_exact(both(shell(f"ulimit -n 5; exec {hostile}")), report_json)


def test_target_without_a_free_descriptor_is_missed_aloud(both, report_json):
    run = both(shell("ulimit -n 3; exec /bin/true"), status=127)  # the loader cannot open the C library either
    assert report_json(run.path)["warnings"] == {"missed_unreadable": 1}


def test_child_that_cannot_open_a_descriptor_is_missed_aloud(heapgauge, hostile, both, report_json):
    run = both([hostile, "few"])
    child, parent = truths(run.stdout)
    summary = report_json(run.path)
    assert [p["calls"] for p in profiles_of(summary)] == [parent[0]]
    assert summary["warnings"] == {"missed_child": 1}
    [said] = notes_of(heapgauge, run.path)
    assert said.startswith("1 child was not recorded (never reached heapgauge") and said.endswith(f": {hostile}")


def test_strict_seccomp_before_the_first_block_kills_nobody(hostile, both, report_json):
    is_accounted_for(both([hostile, "strict"], status=5), report_json)


def test_strict_seccomp_after_some_work_kills_nobody(hostile, both, report_json):
    is_accounted_for(both([hostile, "strict", "warm"], status=5), report_json)


def test_filter_that_refuses_all_but_the_allocators_calls_costs_details_only(hostile, both, report_json):
    process = is_accounted_for(both([hostile, "eperm"], status=6), report_json)
    assert process["health"]["memory_failures"] > 0


def test_filter_that_kills_for_more_memory_kills_nobody(hostile, both, report_json):
    """The recorder asks the filter what it would do to each of its own calls, and makes none that harms."""
    process = is_accounted_for(both([hostile, "kill memory"]), report_json)
    assert process["calls"] == 21001, "each was counted"
    assert process["not_freed_bytes"] > 0


def test_filter_that_kills_for_a_socket_kills_no_child_and_those_are_missed_aloud(heapgauge, hostile, both, report_json):
    run = both([hostile, "kill socket"])
    child, program, parent = truths(run.stdout)
    summary = report_json(run.path)
    assert [p["calls"] for p in profiles_of(summary)] == [parent[0]]
    assert summary["warnings"] == {"missed_sealed": 2}
    [said] = notes_of(heapgauge, run.path)
    assert said.startswith("2 processes were not recorded (a seccomp filter forbids what the recorder needs)")


@pytest.mark.parametrize("call", CALL_NUMBERS)
def test_filter_that_kills_for_one_call_kills_no_child_and_no_program(call, hostile, both, report_json):
    """What a child or a program needs to begin is asked for as well, whichever group of calls it is in."""
    program = [] if call == "mprotect" else ["exec"]  # the loader itself needs it
    run = both([hostile, "kill one", str(CALL_NUMBERS[call]), *program], "--mode", "sample", "--budget", "0.5%")
    if call != "futex":
        assert report_json(run.path)["warnings"] == {"missed_sealed": 1 + len(program)}


def test_filter_that_kills_for_looking_at_files_leaves_the_parent_alone(hostile, both, report_json):
    run = both([hostile, "kill exec"])
    assert report_json(run.path)["warnings"] == {"missed_sealed": 1}


@pytest.mark.parametrize("budget", ["1M", "2M", "300K"])
def test_small_budget_costs_details_and_that_is_said(budget, hostile, both, report_json):
    process = is_accounted_for(both([hostile], "--budget", budget), report_json)
    assert process["recorder_bytes"] <= {"1M": 1 << 20, "2M": 2 << 20, "300K": 300 << 10}[budget]


def test_empty_environment_stays_empty_and_the_target_is_recorded(hostile, both, report_json):
    is_exact(both(["env", "-i", hostile]), report_json)
    run = both(["env", "-i", "/bin/sh", "-c", "/usr/bin/env"], status=0)
    assert "LD_PRELOAD" not in run.stdout and "HEAPGAUGE" not in run.stdout


@needs_root
def test_target_of_another_user_is_recorded(heapgauge, build, hostile, clean_env, scratch, report_json):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-test-"))
    folder.chmod(0o755)
    try:
        for name in ("heapgauge", "libheapgauge.so"):
            shutil.copy(build / name, folder / name)
        done = subprocess.run(
            [folder / "heapgauge", "record", "-q", "-o", scratch / "run.hg", "--",
             "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", hostile],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    assert (done.returncode, done.stderr) == (4, "")
    done.path = scratch / "run.hg"
    is_exact(done, report_json)


@needs_root
def test_target_of_another_user_who_cannot_read_the_recorder_runs_as_ever(build, hostile, clean_env, scratch, report_json):
    private = scratch / "private"
    private.mkdir(mode=0o700)
    for name in ("heapgauge", "libheapgauge.so"):
        shutil.copy(build / name, private / name)
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", hostile]
    bare = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    done = subprocess.run(
        [private / "heapgauge", "record", "-q", "-o", scratch / "run.hg", "--", *argv],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (bare.returncode, bare.stdout, bare.stderr)


def small_root(folder, program):
    """A tree with the program, the loader and its libraries, and nothing else."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(program, folder / "bin" / program.name)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in {*re.findall(r"(/\S+) \(0x", listed), LOADER}:
        to = folder / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return folder


@needs_root
def test_target_in_a_small_root_runs_as_ever_and_is_missed_aloud(heapgauge, hostile, both, scratch, report_json):
    """The recorder's file is not there: the loader would complain on stderr."""
    run = both(["chroot", small_root(scratch / "root", hostile), "/bin/hostile"])
    assert report_json(run.path)["warnings"] == {"missed_recorder": 1}
    [said] = notes_of(heapgauge, run.path)
    assert "cannot read the recorder's file there: a chroot" in said and said.endswith(": /bin/hostile")


@needs_root
def test_target_in_a_small_root_that_holds_the_recorder_is_recorded(build, hostile, both, scratch, report_json):
    root = small_root(scratch / "root", hostile)
    library = root / str((build / "libheapgauge.so").resolve()).lstrip("/")
    library.parent.mkdir(parents=True)
    shutil.copy(build / "libheapgauge.so", library)
    is_exact(both(["chroot", root, "/bin/hostile"]), report_json)


STRANGER = """
#include <unistd.h>
__attribute__((constructor)) static void run(void) { write(1, "the stranger's code\\n", 20); }
"""


@needs_root
def test_in_a_small_root_what_a_stranger_put_in_the_place_of_the_recorder_is_not_loaded(build, hostile, both, scratch, report_json):
    root = small_root(scratch / "root", hostile)
    library = root / str((build / "libheapgauge.so").resolve()).lstrip("/")
    library.parent.mkdir(parents=True)
    shutil.copy(compile_c(scratch, "stranger.so", STRANGER, "-shared", "-fPIC"), library)
    os.chown(library, 65534, 65534)
    run = both(["chroot", root, "/bin/hostile"])
    assert report_json(run.path)["warnings"] == {"missed_recorder": 1}


READ_ONLY = "mount --bind / /mnt; mount -o remount,bind,ro /mnt; cd /; exec chroot /mnt"


def test_target_on_a_read_only_root_is_recorded(namespaces, hostile, both, report_json):
    is_exact(both(in_namespace(f"{READ_ONLY} {hostile}")), report_json)


def test_target_with_a_tiny_full_dev_shm_is_recorded(namespaces, hostile, both, report_json):
    script = "mount -t tmpfs -o size=64k none /dev/shm; head -c 65536 /dev/zero >/dev/shm/full; df --output=avail /dev/shm; exec"
    run = both(in_namespace(f"{script} {hostile}"))
    assert re.search(r"^ *0$", run.stdout, re.M), "it is full"
    is_exact(run, report_json)


def test_target_without_proc_is_recorded(namespaces, hostile, both, report_json):
    is_exact(both(in_namespace(f"umount -l /proc; exec {hostile}")), report_json)


@pytest.mark.parametrize("kinds", ["--ipc --uts", "--pid --fork", "--user --map-root-user", "--mount --cgroup"])
def test_target_in_name_spaces_of_its_own_is_recorded(kinds, namespaces, hostile, both, report_json):
    is_exact(both(["unshare", *kinds.split(), hostile]), report_json)


def test_target_in_a_network_of_its_own_is_recorded(namespaces, hostile, both, report_json):
    """Abstract sockets belong to a network name space; the socket that is a file does not."""
    is_exact(both(["unshare", "--net", hostile]), report_json)


def test_target_in_a_network_and_a_root_of_its_own_is_missed_aloud(build, namespaces, hostile, both, scratch, report_json):
    root = small_root(scratch / "root", hostile)
    library = root / str((build / "libheapgauge.so").resolve()).lstrip("/")
    library.parent.mkdir(parents=True)
    shutil.copy(build / "libheapgauge.so", library)
    run = both(["unshare", "--net", "chroot", root, "/bin/hostile"])
    assert report_json(run.path)["warnings"] == {"missed_unconnected": 1}
    assert [p["end"] for p in report_json(run.path)["processes"]] == ["exec", "exec"]


def heapgauge_inside(prepare, heapgauge, options, argv, clean_env, cwd):
    """Runs all of `heapgauge record` after the shell commands in a name space; the recording goes through a pipe out."""
    command = " ".join(shlex.quote(str(word)) for word in [heapgauge, "record", "-q", *options, "--", *argv])
    return subprocess.run(
        in_namespace(f"{prepare}; set +e; {command}; code=$?; echo code $code >&2; exit $code"),
        cwd=cwd, env=clean_env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip


def test_heapgauge_without_proc_records(namespaces, heapgauge, build, hostile, clean_env, scratch, report_json):
    path = scratch / "run.hg"
    env = clean_env | {"HEAPGAUGE_RECORDER": str(build / "libheapgauge.so")}
    done = heapgauge_inside("umount -l /proc", heapgauge, ["-o", path], [hostile], env, scratch)
    assert (done.returncode, done.stderr) == (4, "code 4\n")
    done.path = path
    summary = report_json(path)
    process = next(p for p in summary["processes"])
    assert [(process["calls"], process["total_bytes"], process["not_freed_bytes"])] == truths(done.stdout)


def test_heapgauge_with_a_tiny_full_dev_shm_and_tmp_records(namespaces, heapgauge, hostile, clean_env, scratch, report_json):
    path = scratch / "run.hg"
    fill = "for d in /dev/shm /run; do mount -t tmpfs -o size=64k none $d; head -c 65536 /dev/zero >$d/full; done"
    done = heapgauge_inside(fill, heapgauge, ["-o", path], [hostile], clean_env, scratch)
    assert (done.returncode, done.stderr) == (4, "code 4\n")
    done.path = path
    is_exact(done, report_json)


@pytest.mark.parametrize("size", ["4k", "16k"])
def test_full_disk_for_the_recording_is_said_and_the_target_ends_as_ever(
    size, namespaces, heapgauge, hostile, clean_env, scratch
):
    disk = scratch / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={size} none {disk}; head -c 1M /dev/zero >{disk}/full 2>/dev/null || true"
    done = heapgauge_inside(mount, heapgauge, ["-o", disk / "run.hg"], [hostile], clean_env, scratch)
    assert truths(done.stdout) == [(20000, 1990000, 663333)], "the program came to its end"
    assert "No space left" in done.stderr
    assert done.returncode != 0


def test_read_only_folder_for_the_recording_is_said_before_anything_runs(
    namespaces, heapgauge, hostile, clean_env, scratch
):
    disk = scratch / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o ro none {disk}"
    done = heapgauge_inside(mount, heapgauge, ["-o", disk / "run.hg"], [hostile], clean_env, scratch)
    assert done.stdout == ""
    assert "Read-only file system" in done.stderr
    assert done.returncode == 125
