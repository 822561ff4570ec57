# SPDX-License-Identifier: Apache-2.0
"""A program that records itself: LD_PRELOAD and an environment, nothing else. Its numbers are those that a collector gets;
a file stays if it is killed, and only then; and wherever it runs, it runs as without us."""

import contextlib
import json
import os
import pathlib
import re
import resource
import stat
import struct
import subprocess
import sys

import pytest

from alone import file_of, files, folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, losses
from running import KEEPER, again, as_before_5_14, compile_keeper, keeping, without
from test_targets import NAMES, compare, inconsistencies, parse

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")

# What the environment of the test can go wrong with, in few programs; all in the long form.
SOME = [
    "t_c_entry_points", "t_cxx_operators", "t_descriptors_closed", "t_environment_meanwhile", "t_errno_canary",
    "t_fork_children", "t_fork_exec", "t_fork_threads", "t_limits_itself", "t_process_view", "t_seccomp_kill",
    "t_signals_jump_out", "t_small_stacks", "t_threads_ends", "t_rv_vfork_from_silent_thread", "t_misaligned_stack",
]

# Does what its first argument says, after it has taken 1000 blocks of 100 bytes.
ENDER = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) void take(int n) { for (int i = 0; i < n; i++) kept = malloc(100); __asm__(""); }
static void *leave(void *how) { if (how) _exit(0); exit(0); }
int main(int argc, char **argv)
{
	const char *how = argv[1];
	pthread_t thread;
	alarm(900);
	take(1000);
	if (!strcmp(how, "return")) return 0;
	if (!strcmp(how, "exit")) exit(3);
	if (!strcmp(how, "_exit")) _exit(0);
	if (!strcmp(how, "_Exit")) _Exit(0);
	if (!strcmp(how, "quick_exit")) quick_exit(0);
	if (!strcmp(how, "thread")) { pthread_create(&thread, NULL, leave, NULL); pthread_join(thread, NULL); }
	if (!strcmp(how, "thread_exit")) { pthread_create(&thread, NULL, leave, "_"); pthread_join(thread, NULL); }
	if (!strcmp(how, "exec")) execl("/bin/true", "true", NULL);
	if (!strcmp(how, "execvp")) execvp("true", (char *[]){ "true", NULL });
	if (!strcmp(how, "kill")) raise(SIGKILL);
	if (!strcmp(how, "segv")) *(volatile int *)argc = 0;
	if (!strcmp(how, "abort")) abort();
	if (!strcmp(how, "term")) raise(SIGTERM);
	if (!strcmp(how, "failed_exec")) { execl("/no/such/program", "x", NULL); raise(SIGKILL); }
	if (!strcmp(how, "fork_exit")) { if (fork() == 0) exit(0); wait(NULL); raise(SIGKILL); }
	if (!strcmp(how, "fork__exit")) { if (fork() == 0) { take(10); _exit(0); } wait(NULL); raise(SIGKILL); }
	if (!strcmp(how, "vfork_exit")) { if (vfork() == 0) _exit(0); wait(NULL); raise(SIGKILL); }
	if (!strcmp(how, "vfork_exec")) { if (vfork() == 0) { execl("/bin/true", "true", NULL); _exit(1); } wait(NULL); raise(SIGKILL); }
	if (!strcmp(how, "system")) { system("true"); raise(SIGKILL); }
	if (!strcmp(how, "child_killed")) { if (fork() == 0) { take(50); raise(SIGKILL); } wait(NULL); exit(0); }
	return 99;
}
"""


@pytest.fixture
def folder():
    with folder_on_tmpfs() as path:
        yield path


@pytest.fixture
def report(heapgauge, clean_env):
    def run(*words, view="summary"):
        done = subprocess.run(
            [heapgauge, "report", *map(str, words), "--view", view, "--format", "json"],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def ender(scratch):
    return compile_c(scratch, "ender", ENDER, "-pthread")


def sites_of(result):
    """Without what names the process and the moment."""
    return [{k: v for k, v in site.items() if "lifetime" not in k and "_ns" not in k and "second" not in k} for site in result["sites"]]


# ---- reading ----


def test_without_a_folder_it_can_be_read_while_it_runs(heapgauge, build, scratch, clean_env, report):
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env)) as run:
        process = report("--pid", run.target)["processes"][0]
        assert (process["calls"], process["frees"], process["not_freed_bytes"]) == (1000, 100, 900 * 200)
        assert (process["peak_bytes"], process["end"], losses(process)) == (200000, "running", {})
        assert "clock_stopped_ms" not in process["health"], "nobody waits for a collector's clock"
        again(run)
        assert report("--pid", run.target)["processes"][0]["calls"] == 2000
        done = subprocess.run([heapgauge, "list", "--format", "json"], env=clean_env, capture_output=True, text=True, check=True)
        row = next(row for row in json.loads(done.stdout)["processes"] if row["pid"] == run.target)
        assert (row["live_blocks"], row["profile_storage"], row["problem"]) == (1800, "memory", None)


def test_a_file_says_the_same_as_the_process(build, scratch, clean_env, folder, report):
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env, folder)) as run:
        path = file_of(folder, run.target)
        assert re.fullmatch(rf"heapgauge\.keeper\.{run.target}\.\d+\.live", path.name)
        mode = path.stat()
        assert stat.S_IMODE(mode.st_mode) == 0o600 and mode.st_blocks * 512 < 8 << 20, "sparse, and for its owner alone"
        by_pid, by_file = report("--pid", run.target, view="sites"), report(path, view="sites")
        assert sites_of(by_pid) == sites_of(by_file) and len(by_file["sites"]) > 0
        process = report(path)["processes"][0]
        assert (process["pid"], process["end"], process["not_freed_blocks"]) == (run.target, "running", 900)
        assert process["command"].endswith("/keeper")
    assert files(folder) == [], "it ended in good order"


def test_a_kernel_before_5_14_has_files_too(build, scratch, clean_env, folder, report):
    """They cannot be asked to populate pages. Each page is made by a system call that can say so if it fails."""
    program = compile_keeper(scratch)
    with keeping([as_before_5_14(scratch), program], preloaded(build, clean_env, folder)) as run:
        process = report(file_of(folder, run.target))["processes"][0]
        assert (process["calls"], process["not_freed_blocks"], losses(process)) == (1000, 900, {})
    assert run.returncode == 0 and files(folder) == []


def test_the_file_can_be_read_where_memory_may_not(heapgauge, build, scratch, clean_env, folder):
    """By its owner: a kernel that forbids process_vm_readv to all but root forbids no file."""
    wrapper = without(scratch, "process_vm_readv")
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env, folder)) as run:
        done = subprocess.run(
            [wrapper, heapgauge, "report", "--pid", str(run.target), "--format", "json"],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["processes"][0]["not_freed_blocks"] == 900


def test_a_library_that_is_linked_in_does_the_same(build, scratch, clean_env, folder, report):
    program = compile_c(scratch, "linked", KEEPER, f"-L{build}", "-Wl,--no-as-needed", "-lheapgauge", f"-Wl,-rpath,{build}")
    with keeping([program], clean_env | {"HEAPGAUGE_DIR": str(folder)}) as run:
        assert report("--pid", run.target)["processes"][0]["not_freed_blocks"] == 900
        assert file_of(folder, run.target)


def test_the_environment_is_left_as_it_is(build, clean_env, folder):
    env = preloaded(build, clean_env, folder)
    done = subprocess.run(["env", "-0"], env=env, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split("\0")[:-1]) == sorted(f"{k}={v}" for k, v in env.items())


def test_depth_and_budget_come_from_the_environment(build, target, clean_env, folder, report):
    env = preloaded(build, clean_env, folder, HEAPGAUGE_KEEP="1", HEAPGAUGE_DEPTH="3", HEAPGAUGE_BUDGET="4MiB")
    run = subprocess.run([target("t_stacks_cut")], env=env, capture_output=True, text=True, check=True)
    assert run.stdout
    (path,) = folder.glob("heapgauge.t_stacks_cut.*")
    sites, process = report(path, view="sites")["sites"], report(path)["processes"][0]
    assert max(len(site["stack"]) for site in sites) <= 4, "three frames, and that some are cut"
    assert process["recorder_bytes"] <= 4 << 20


def test_the_mode_comes_from_the_environment(build, scratch, clean_env, report, heapgauge, folder):
    program = compile_keeper(scratch)

    def listed(pid):
        done = subprocess.run([heapgauge, "list", "--format", "json"], env=clean_env, capture_output=True, text=True, check=True)
        return next(row for row in json.loads(done.stdout)["processes"] if row["pid"] == pid)

    with keeping([program], preloaded(build, clean_env, folder, HEAPGAUGE_MODE="dormant")) as run:
        row = listed(run.target)
        assert (row["mode"], row["calls"], row["live_bytes"]) == ("dormant", 0, 0)
    sampled = preloaded(build, clean_env, folder, HEAPGAUGE_MODE="sample", HEAPGAUGE_INTERVAL="1KiB")
    with keeping([program], sampled) as run:
        for _ in range(20):
            again(run)
        row, path = listed(run.target), file_of(folder, run.target)
        assert row["mode"] == "sample 1.0 KiB" and 0 < row["live_bytes_error"] < row["live_bytes"] // 4
        # 21 rounds of 900 blocks of 200 bytes. The error is what 95 of 100 stay within: four times that is never.
        assert abs(row["live_bytes"] - 21 * 900 * 200) < 4 * row["live_bytes_error"]
        assert report(path)["processes"][0]["mode"] == "sampled"


# ---- ends ----


@pytest.mark.parametrize("how", ["return", "exit", "_exit", "_Exit", "quick_exit", "thread", "thread_exit", "exec", "execvp"])
def test_an_end_in_good_order_leaves_nothing(how, ender, build, clean_env, folder):
    bare = subprocess.run([ender, how], env=clean_env, capture_output=True, timeout=WAIT_SECONDS)
    run = subprocess.run([ender, how], env=preloaded(build, clean_env, folder), capture_output=True, timeout=WAIT_SECONDS)
    assert (run.returncode, run.stdout, run.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert files(folder) == []


@pytest.mark.parametrize(
    "how", ["kill", "segv", "abort", "term", "failed_exec", "fork_exit", "fork__exit", "vfork_exit", "vfork_exec", "system"]
)
def test_any_other_end_leaves_the_last_state(how, ender, build, clean_env, folder, report):
    run = subprocess.Popen([ender, how], env=preloaded(build, clean_env, folder), stdout=subprocess.PIPE)
    run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode < 0
    assert [path.name.split(".")[1:3] for path in folder.iterdir()] == [["ender", str(run.pid)]], "of this process alone"
    process = report(file_of(folder, run.pid))["processes"][0]
    sites = [site for site in report(file_of(folder, run.pid), view="sites")["sites"] if site["calls"] == 1000]
    assert [(site["not_freed_blocks"], site["not_freed_bytes"]) for site in sites] == [(1000, 100000)]
    assert (process["pid"], process["end"], process["exit_code"]) == (run.pid, "unknown", None)
    assert process["command"].endswith(f"/ender {how}")


def test_a_killed_child_has_a_profile_of_its_own(ender, build, clean_env, folder, report):
    subprocess.run([ender, "child_killed"], env=preloaded(build, clean_env, folder), check=True, timeout=WAIT_SECONDS)
    (path,) = folder.iterdir()
    assert report(path)["processes"][0]["calls"] == 50, "and nothing of its parent's"


def test_with_keep_the_file_stays_whatever_the_end(ender, build, clean_env, folder, report):
    env = preloaded(build, clean_env, folder, HEAPGAUGE_KEEP="1")
    subprocess.run([ender, "return"], env=env, check=True, timeout=WAIT_SECONDS)
    (path,) = folder.iterdir()
    assert report(path)["processes"][0]["calls"] == 1000


FIRST = r"""
#define _GNU_SOURCE
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	void *volatile p = malloc(1000);
	int status = 0;
	glob_t found;
	long child = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (child == 0) _exit(4);
	if (child < 0 || waitpid(child, &status, 0) != child || status != 4 << 8 || getpid() != 1 || p == NULL) return 77;
	return argc < 2 || glob(argv[1], 0, NULL, &found) ? 78 : (int)found.gl_pathc;
}
"""


@as_root
def test_a_child_with_the_pid_of_its_parent_leaves_the_file_of_its_parent(build, clean_env, scratch, folder):
    """Both are the first of their pid namespace."""
    program = compile_c(scratch, "first", FIRST)
    own = [f"{name}={value}" for name, value in preloaded(build, {}, folder).items()]
    done = subprocess.run(["unshare", "--pid", "--fork", "env", *own, program, f"{folder}/heapgauge.first.*"], env=clean_env, capture_output=True,
                          text=True, timeout=WAIT_SECONDS, check=False)  # fmt: skip
    if "unshare failed" in done.stderr:
        pytest.skip("no namespaces")
    assert (done.returncode, done.stderr) == (1, "")
    assert files(folder) == []


def test_a_kill_at_any_moment_loses_nothing_that_was_done(target, build, clean_env, folder, report):
    """kill_me says how many allocations it has made, again and again, from several threads."""
    for wait in (0.05, 0.15, 0.3):
        run = subprocess.Popen([target("kill_me")], env=preloaded(build, clean_env, folder), stdout=subprocess.PIPE, text=True)
        try:
            run.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            pass
        run.kill()
        said, _ = run.communicate(timeout=WAIT_SECONDS)
        acknowledged = [int(n) for n in re.findall(r"(\d+)\n", said or "")]
        process = report(file_of(folder, run.pid))["processes"][0]
        assert process["calls"] >= max(acknowledged, default=0) and process["calls"] >= process["frees"]
        assert set(losses(process)) <= {"early_calls"}
        file_of(folder, run.pid).unlink()


# ---- truth, and harm ----


@pytest.mark.parametrize("name", NAMES if LONG else SOME)
def test_a_target_is_recorded_as_it_says(name, target, build, clean_env, folder, scratch, report):
    program = target(name)
    env = clean_env | {"HEAPGAUGE_LONG": "0"}
    bare = subprocess.run([program], env=env, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_SECONDS)
    env = preloaded(build, env, folder, HEAPGAUGE_KEEP="1")
    with subprocess.Popen(
        [program], env=env, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        out, err = run.communicate(timeout=WAIT_SECONDS)
    assert (run.returncode, err) == (bare.returncode, bare.stderr), out[-2000:]
    truth = parse(out)
    assert truth.output == parse(bare.stdout).output
    path = min(folder.glob(f"heapgauge.*.{run.pid}.*.live"), key=lambda path: path.stat().st_ctime_ns)
    process = report(path)["processes"][0]
    listed = report(path, view="sites")
    sites = [site | {"stack": [listed["frames"][n] for n in site["stack"]]} for site in listed["sites"]]
    # Its clock is a coarse one.
    for _, comparisons in truth.expectations:
        comparisons[:] = [c for c in comparisons if not c[0].startswith("lifetimes:") and "_ns" not in c[0]]
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)


# ---- places where no file can be kept ----


def expect_no_file(program, env, folder_path, report, run_options=None):
    """The program runs as ever, is recorded in memory, and says so."""
    with keeping([program], env, **(run_options or {})) as run:
        process = report("--pid", run.target)["processes"][0]
        assert (process["calls"], process["not_freed_blocks"]) == (1000, 900)
        assert losses(process) == {"unkept": 1}
        again(run)
        assert report("--pid", run.target)["processes"][0]["not_freed_blocks"] == 1800
    assert run.returncode == 0
    assert not folder_path or not folder_path.is_dir() or files(folder_path) == []


def test_who_has_no_file_is_listed_before_it_is_killed(build, heapgauge, scratch, clean_env):
    """T7"""
    env = preloaded(build, clean_env, scratch / "missing")
    with keeping([compile_keeper(scratch)], env) as run:
        said = subprocess.run([heapgauge, "list"], env=clean_env, capture_output=True, text=True, check=True).stdout
        assert f"(pid {run.target}): profile not kept in HEAPGAUGE_DIR" in said


@pytest.mark.parametrize("where", ["disk", "missing", "relative", "a file", "long", "empty name"])
def test_a_folder_that_cannot_be_used(where, build, scratch, clean_env, report):
    program = compile_keeper(scratch)
    (scratch / "plain").write_text("")
    (scratch / "disk").mkdir()
    names = {
        "disk": scratch / "disk", "missing": "/dev/shm/no/such/folder", "relative": "dev/shm", "a file": scratch / "plain",
        "long": "/dev/shm/" + "x" * 4000, "empty name": " ",
    }
    expect_no_file(program, preloaded(build, clean_env, names[where]), scratch / "disk", report)


@as_root
@pytest.mark.parametrize("options", ["size=1m", "size=64m,ro", "size=64m,mode=000"])
def test_a_tmpfs_that_is_full_or_read_only(options, build, scratch, clean_env, report):
    mount = scratch / "mount"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", mount], check=True)
    try:
        program = compile_keeper(scratch)
        program.chmod(0o755)
        # Root may write anywhere.
        user = {"user": 65534} if "mode" in options else {}
        if user:
            for folder in [scratch, *scratch.parents][:-2]:  # all but / and /tmp
                folder.chmod(0o755)
        env = preloaded(build, clean_env, mount)
        if user:
            readable = pathlib.Path("/dev/shm") / f"libheapgauge-{os.getpid()}.so"
            readable.write_bytes((build / "libheapgauge.so").read_bytes())
            readable.chmod(0o755)
            env["LD_PRELOAD"] = str(readable)
        expect_no_file(program, env, mount, report, user)
    finally:
        subprocess.run(["umount", "-l", mount], check=True)  # a profile in it may be open in an agent of another test
        if "mode" in options:
            readable.unlink()


@as_root
@pytest.mark.parametrize("kernel", ["this", "before 5.14"])
def test_a_tmpfs_that_fills_up_meanwhile_costs_details_and_not_the_program(kernel, build, scratch, clean_env, report):
    mount = scratch / "mount"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "none", mount], check=True)
    try:
        program = compile_c(scratch, "spreads", SPREADS)
        env = preloaded(build, clean_env, mount, HEAPGAUGE_BUDGET="1GiB")
        with keeping([program] if kernel == "this" else [as_before_5_14(scratch), program], env) as run:
            path = file_of(mount, run.target)
            with open(mount / "filler", "wb", buffering=0) as filler:  # to the last page; what is in a buffer would fail at the end
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(b"x" * 65536)
            again(run)  # 300,000 blocks, all over the place
            process = report(path)["processes"][0]
            assert process["calls"] == 300_000, "totals are right all the same"
            assert process["health"]["memory_failures"] > 0 and process["health"]["untracked_blocks"] > 0
        assert run.returncode == 0
    finally:
        subprocess.run(["umount", "-l", mount], check=True)  # a profile in it may be open in an agent of another test


# Tells its pid, waits, takes 300,000 blocks of 64 bytes, tells again, waits.
SPREADS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
int main(void)
{
	char line[24], byte;
	alarm(900);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; round > 0 && i < 300000; i++) kept = malloc(64);
		write(1, line, (size_t)snprintf(line, sizeof line, "%d\n", getpid()));
		read(0, &byte, 1);
	}
	_exit(0);
}
"""


@pytest.mark.parametrize(
    "limit, value", [("FSIZE", 0), ("FSIZE", 4096), ("FSIZE", 32 << 20), ("AS", 1 << 30), ("NOFILE", 4), ("CORE", 0)]
)
def test_limits_of_the_program(limit, value, build, scratch, clean_env, folder, report):
    program = compile_keeper(scratch)
    number = getattr(resource, f"RLIMIT_{limit}")
    env = preloaded(build, clean_env, folder)
    with keeping([program], env, preexec_fn=lambda: resource.setrlimit(number, (value, value))) as run:
        process = report("--pid", run.target)["processes"][0]
        assert (process["calls"], process["not_freed_blocks"]) == (1000, 900)
        has_file = (limit, value) not in [("FSIZE", 0), ("FSIZE", 4096)]
        assert (file_of(folder, run.target) is not None) == has_file
        assert losses(process) == ({} if has_file else {"unkept": 1})
    assert run.returncode == 0 and files(folder) == []


@pytest.mark.parametrize("call", ["memfd_create", "ftruncate", "madvise", "statfs", "prlimit64"])
def test_a_kernel_that_forbids_what_the_recorder_needs(call, build, scratch, clean_env, report, heapgauge):
    """Memory without a name does where all else fails."""
    program = compile_keeper(scratch)
    env = preloaded(build, clean_env)
    argv = [without(scratch, call), program]
    with keeping(argv, env) as run:
        done = subprocess.run([heapgauge, "list", "--format", "json"], env=clean_env, capture_output=True, text=True, check=True)
        row = next((row for row in json.loads(done.stdout)["processes"] if row["pid"] == run.target), None)
        if call == "madvise":  # without it nothing can be kept apart from a fork's child: it stays off
            assert row is None
        else:
            assert (row["live_blocks"], row["profile_storage"]) == (900, "memory")
            assert report("--pid", run.target)["processes"][0]["calls"] == 1000
    assert run.returncode == 0


def test_a_program_that_dumps_core_dumps_no_profile(ender, build, clean_env, folder, scratch):
    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip("cores go elsewhere")
    subprocess.run([ender, "abort"], env=preloaded(build, clean_env, folder), cwd=scratch, preexec_fn=limits, check=False)
    cores = [path for path in scratch.iterdir() if path.name.startswith("core")]
    assert not cores or cores[0].stat().st_blocks * 512 < 4 << 20


def test_python_and_its_workers(build, clean_env, folder):
    """A real program that forks, execs and leaves by os._exit."""
    script = (
        "import multiprocessing, subprocess\n"
        "def work(n): return len([bytes(n) for _ in range(1000)])\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(3) as pool: print(sum(pool.map(work, range(50))))\n"
        "    print(subprocess.run(['echo', 'hello'], capture_output=True, text=True).stdout.strip())\n"
    )
    env = clean_env | {"PYTHONMALLOC": "malloc"}
    bare = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    run = subprocess.run([sys.executable, "-c", script], env=preloaded(build, env, folder), capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (run.returncode, run.stdout, run.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    # Workers are ended by a signal.
    assert len(files(folder)) <= 3


def test_a_damaged_file_is_refused_with_words(heapgauge, ender, build, clean_env, folder):
    subprocess.run([ender, "kill"], env=preloaded(build, clean_env, folder), check=False)
    (path,) = folder.iterdir()
    os.truncate(path, 300_000)
    done = subprocess.run([heapgauge, "report", path], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 1 and path.name in done.stderr and "shorter" in done.stderr
    with open(path, "r+b") as file:
        file.seek(16)
        file.write(b"\xff" * 400)
    done = subprocess.run([heapgauge, "report", path], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 1 and "the profile cannot be read" in done.stderr


def test_a_file_of_another_format_is_refused_with_both_versions(heapgauge, ender, build, clean_env, folder):
    subprocess.run([ender, "kill"], env=preloaded(build, clean_env, folder), check=False)
    (path,) = folder.iterdir()
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(struct.pack("<HH", 4711, 3))
    done = subprocess.run([heapgauge, "report", path], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 1 and re.search(r"was written in format 4711\.3, and this heapgauge reads format \d+: use ", done.stderr), done.stderr


# ---- what the program names, and what is for heapgauge record ----

NAMING = r"""
#include <heapgauge/heapgauge.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *kept[8];
__attribute__((noinline)) static void *hold(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
int main(int argc, char **argv) {
    static char in[64], out[64];
    setvbuf(stdin, in, _IOFBF, sizeof in);
    setvbuf(stdout, out, _IOFBF, sizeof out);
    alarm(900);
    kept[0] = hold(1000);
    hg_snapshot("start");
    hg_mark("half way");
    kept[1] = hold(200);
    hg_snapshot("more");
    free(kept[0]);
    hg_snapshot("less");
    for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) hg_snapshot("many");
    printf("%d\n", getpid());
    fflush(stdout);
    getchar();
    return 0;
}
"""


@pytest.fixture
def naming(scratch):
    return compile_c(scratch, "naming", NAMING, f"-I{pathlib.Path(__file__).resolve().parents[3] / 'include'}")


def named(rows, kind):
    return [(row["name"], row["live_bytes"]) for row in rows if row["kind"] == kind]


def check_named(report, *where):
    rows = report(*where, view="snapshots")["snapshots"]
    assert named(rows, "snapshot") == [("start", 1000), ("more", 1200), ("less", 200)]
    assert [name for name, _ in named(rows, "mark")] == ["half way"]
    then = report(*where, "--at", "snap:more", "--cost", "live", view="sites")["sites"]
    assert sum(site["live_bytes"] for site in then) == 1200
    assert not losses(report(*where)["processes"][0])


def test_snapshots_and_marks_of_a_program_that_records_itself(naming, build, clean_env, folder, report):
    """N13: while it runs, and in what it leaves."""
    with keeping([naming], preloaded(build, clean_env, folder)) as run:
        pid = run.target
        check_named(report, "--pid", pid)
        file = file_of(folder, pid)
        os.kill(pid, 9)
    check_named(report, file)


def test_a_process_lives_at_least_until_its_last_snapshot(naming, build, clean_env, folder, report):
    """Its clock has milliseconds, its snapshots have nanoseconds."""
    with keeping([naming], preloaded(build, clean_env, folder)) as run:
        file = file_of(folder, run.target)
        os.kill(run.target, 9)
    last = max(row["at_ns"] for row in report(file, view="snapshots")["snapshots"] if row["kind"] == "snapshot")
    assert report(file)["processes"][0]["duration_ns"] >= last
    end = report(file, view="timeline")["timeline"][-1]
    assert end["calls"] and end["calls_per_second"]


def test_snapshots_that_find_no_room_are_counted(naming, build, clean_env, folder, report):
    """N13: what is not kept is said. There is room for some of 200,000."""
    with keeping([naming, "200000"], preloaded(build, clean_env, folder, HEAPGAUGE_BUDGET="4MiB")) as run:
        pid = run.target
        rows = named(report("--pid", pid, "--limit", "1000000", view="snapshots")["snapshots"], "snapshot")
        lost = losses(report("--pid", pid)["processes"][0])
    kept = [row for row in rows if row[1] is not None]
    assert kept[:3] == [("start", 1000), ("more", 1200), ("less", 200)]
    assert 0 < lost.get("lost_snapshots", 0) <= 200000, (len(rows), len(kept), lost)


def test_snapshots_of_a_process_with_a_collector(naming, heapgauge, clean_env, scratch, report):
    """N13: report --pid shows them, or says that the collector has them; the recording has them all."""
    with keeping([heapgauge, "record", "-q", "-o", scratch / "run.hg", naming], clean_env) as run:
        pid = run.target
        answer = report("--pid", pid, view="snapshots")["snapshots"]
        shown = [name for name, live in named(answer, "snapshot") if live is not None]
        lost = losses(report("--pid", pid)["processes"][0]).get("lost_snapshots", 0)
        assert [row[0] for row in named(answer, "mark")] == ["half way"]
        assert len(shown) + lost >= 3
    rows = report(scratch / "run.hg", view="snapshots")["snapshots"]
    assert named(rows, "snapshot") == [("start", 1000), ("more", 1200), ("less", 200)]


GROWER = r"""
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) void take(void) { kept = malloc(1000); __asm__(""); }
int main(void) { for (int i = 0; i < 100; i++) { take(); usleep(10000); } return 0; }
"""


def run_grower(build, scratch, clean_env, folder):
    env = preloaded(build, clean_env, folder, HEAPGAUGE_EVERY="100ms", HEAPGAUGE_KEEP="1")
    subprocess.run([compile_c(scratch, "grower", GROWER)], env=env, timeout=WAIT_SECONDS, check=True)
    (path,) = folder.iterdir()
    return path


def test_snapshots_by_time(build, clean_env, scratch, folder, report):
    rows = report(run_grower(build, scratch, clean_env, folder), view="snapshots")["snapshots"]
    live = [row["live_bytes"] for row in rows]
    assert len(rows) >= 5 and {row["name"] for row in rows} == {"every"}
    assert live == sorted(set(live)) and all(value % 1000 == 0 for value in live)


def test_over_time_it_has_what_it_counted_then(build, clean_env, scratch, folder, report, heapgauge):
    """No counters and no RSS were read at the snapshots; the last point is the end of the process."""
    path = run_grower(build, scratch, clean_env, folder)
    rows = report(path, view="timeline")["timeline"]
    kept, last = [row for row in rows[:-1] if row["snapshot"]], rows[-1]
    assert len(kept) >= 5 and all(row["live_bytes"] for row in kept)
    for key in "rss_bytes", "calls", "frees", "total_bytes", "threads", "calls_per_second", "bytes_per_second", "frees_per_second":
        assert {row[key] for row in kept} == {None}, key
    assert (last["rss_bytes"], last["calls"], last["total_bytes"], last["live_bytes"], last["threads"]) == (None, 100, 100000, 100000, 1)
    shown = subprocess.run([heapgauge, "report", path, "--view", "timeline"], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert " 0 B " not in shown and " 0/s" not in shown


def test_settings_of_record_are_said_to_have_no_effect(naming, build, clean_env, folder, report):
    """N13: HEAPGAUGE_ON and HEAPGAUGE_PYTHON=malloc were ignored without a word; so is a time that is none."""
    more = {"HEAPGAUGE_EVERY": "soon", "HEAPGAUGE_ON": "rss>1GiB", "HEAPGAUGE_OUTPUT": "x.hg", "HEAPGAUGE_PYTHON": "malloc"}
    with keeping([naming], preloaded(build, clean_env, folder, **more)) as run:
        pid = run.target
        assert losses(report("--pid", pid)["processes"][0]) == {"unapplied_settings": 4}


@pytest.mark.parametrize(
    "wrong, right",
    [
        ({"MODE": "Sampled", "INTERVAL": "1", "DEPTH": "5000", "BUDGET": "much,0.5%"}, {"MODE": "exact", "DEPTH": "9", "BUDGET": "64MiB,0.5%"}),
        ({"BUDGET": "1.5MiB", "TIME_CALLS": "often"}, {"BUDGET": "64M", "TIME_CALLS": "0", "INTERVAL": "512B", "MODE": ""}),
        ({"MODE": "default", "BUDGET": "64Mouse", "DEPTH": "9,"}, {"BUDGET": "64MB", "KEEP": "0", "PYTHON": "native"}),
        ({"MODE": "trace", "INTERVAL": "1MiBs", "PYTHON": "domain"}, {"MODE": "tags", "INTERVAL": "1mib", "CORE": "on"}),
        ({"KEEP": "2", "CORE": "1.0", "FREE_SITES": "y", "PYTHON_TASKS": "TRUE"}, {"FREE_SITES": "yes", "PYTHON_TASKS": "true"}),
    ],
)
def test_values_that_are_not_understood_are_said_to_have_no_effect(wrong, right, naming, build, clean_env, folder, report):
    """A mode with a capital letter was the default mode, without a word."""
    for values, unapplied in (wrong, len(wrong)), (right, 0):
        more = {f"HEAPGAUGE_{name}": value for name, value in values.items()}
        with keeping([naming], preloaded(build, clean_env, folder, **more)) as run:
            assert losses(report("--pid", run.target)["processes"][0]) == ({"unapplied_settings": unapplied} if unapplied else {})
