# SPDX-License-Identifier: Apache-2.0
"""heapgauge report --pid reads a running process: with its collector, without, and says why where it may not."""

import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from alone import folder_on_tmpfs
from compiled import WAIT_SECONDS, compile_c, wait_for
from reading import with_frames
from running import again, compile_keeper, keeping

@pytest.fixture
def keeper(heapgauge, scratch, clean_env):
    """A recorded program that waits, and its pid."""
    with keeping([heapgauge, "record", "-q", "-o", scratch / "keeper.hg", "--", compile_keeper(scratch)], clean_env) as run:
        yield run


@pytest.fixture
def read_pid(heapgauge, clean_env):
    def run(pid, *options, user=None):
        return subprocess.run(
            [heapgauge, "report", "--pid", str(pid), *options],
            env=clean_env, user=user, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )

    return run


def process_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["processes"][0]


def expect_first_round(process, pid):
    process["health"].pop("clock_stopped_ms", None)  # a busy machine
    assert process["pid"] == pid
    assert (process["end"], process["exit_code"]) == ("running", None)
    assert (process["calls"], process["frees"]) == (1000, 100)
    assert (process["not_freed_blocks"], process["not_freed_bytes"]) == (900, 900 * 200)
    assert process["peak_bytes"] == 1000 * 200
    assert process["command"].endswith("/keeper") and process["health"] == {}


def test_a_running_process_is_read_without_a_file(keeper, read_pid, scratch):
    expect_first_round(process_of(read_pid(keeper.target, "--format", "json")), keeper.target)
    assert not (scratch / "keeper.hg").exists(), "nothing was written"
    text = read_pid(keeper.target).stdout
    assert f"(pid {keeper.target}) was still running" in text


def test_its_sites_have_names(keeper, read_pid):
    done = read_pid(keeper.target, "--view", "sites", "--format", "json")
    assert done.returncode == 0, done.stderr
    sites = [s for s in with_frames(json.loads(done.stdout))["sites"] if any(f["function"] == "keep" for f in s["stack"])]
    assert [(s["calls"], s["not_freed_blocks"]) for s in sites] == [(1000, 900)]


def test_what_it_holds_is_live_and_not_leaked(keeper, read_pid):
    text = read_pid(keeper.target, "--view", "leaks").stdout
    assert " live 175.8 KiB in 900 blocks " in text.splitlines()[0]
    assert "OF LIVE" in text and "LEAKED" not in text
    sites = json.loads(read_pid(keeper.target, "--view", "leaks", "--format", "json").stdout)["sites"]
    assert [(s["state"], s["not_freed_blocks"]) for s in sites] == [("live", 900)]


def test_it_goes_on_undisturbed_and_can_be_read_again(keeper, read_pid):
    process_of(read_pid(keeper.target, "--format", "json"))
    again(keeper)
    process = process_of(read_pid(keeper.target, "--format", "json"))
    assert (process["calls"], process["frees"]) == (2000, 200)


def test_with_the_collector_dead_too(keeper, read_pid):
    keeper.kill()
    keeper.wait(WAIT_SECONDS)
    time.sleep(0.4)
    process = process_of(read_pid(keeper.target, "--format", "json"))
    assert process["health"].pop("clock_stopped_ms") >= 400, "nobody moves its clock any more, and that is said"
    expect_first_round(process, keeper.target)


def test_a_busy_process_with_threads_never_shows_negative_sums(heapgauge, target, clean_env, scratch, read_pid):
    with subprocess.Popen(
        [heapgauge, "record", "-q", "-o", scratch / "busy.hg", "--", target("kill_me")],
        env=clean_env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as run:
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
        pid = int(wait_for(lambda: children.read_text().split(), "the program")[0])
        try:
            wait_for(lambda: read_pid(pid).returncode == 0, "the recorder")
            before = 0
            for _ in range(5):
                process = process_of(read_pid(pid, "--format", "json", "--no-symbols"))
                assert process["calls"] >= before and process["calls"] >= process["frees"]
                assert 0 <= process["not_freed_bytes"] <= process["total_bytes"]
                before = process["calls"]
            assert before > 0
        finally:
            os.kill(pid, 9)
            run.wait(WAIT_SECONDS)


def test_a_process_that_does_not_exist(read_pid):
    done = read_pid(4194000)
    assert (done.returncode, done.stdout) == (1, "")
    assert "process 4194000 does not exist" in done.stderr


def test_a_process_that_is_not_recorded(read_pid):
    done = read_pid(os.getpid())
    assert done.returncode == 1
    assert "is not recorded" in done.stderr and "heapgauge record" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_process_of_somebody_else(keeper, heapgauge, scratch, clean_env):
    readable = pathlib.Path("/tmp") / f"heapgauge-pid-{os.getpid()}"
    readable.write_bytes(heapgauge.read_bytes())
    readable.chmod(0o755)
    try:
        done = subprocess.run(
            [readable, "report", "--pid", str(keeper.target)],
            env=clean_env, user=65534, cwd="/", capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
    finally:
        readable.unlink()
    assert done.returncode == 1
    assert f"process {keeper.target} may not be read" in done.stderr
    assert "another user" in done.stderr or "ptrace_scope" in done.stderr


@pytest.mark.parametrize("word", ["0", "-5", "x", "99999999999"])
def test_a_word_that_is_no_pid(word, heapgauge, clean_env):
    done = subprocess.run([heapgauge, "report", f"--pid={word}"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 2
    assert "pid" in done.stderr


@pytest.mark.parametrize("command", ["image", "snap"])
def test_a_number_that_is_too_large_is_no_other_pid(command, keeper, heapgauge, clean_env):
    """Its lower half is one."""
    done = subprocess.run([heapgauge, command, str((1 << 32) + keeper.target)], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode != 0 and str((1 << 32) + keeper.target) in done.stderr


def test_a_pid_and_a_file_are_one_too_many(heapgauge, clean_env):
    done = subprocess.run(
        [heapgauge, "report", "--pid", "1", "run.hg"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 2 and "not both" in done.stderr


def test_where_its_memory_is_now(keeper, read_pid):
    """The parts add up, and to what the kernel says of a process that waits."""
    result = json.loads(read_pid(keeper.target, "--view", "memory", "--format", "json").stdout)
    (now,) = result["memory"]
    rollup = pathlib.Path(f"/proc/{keeper.target}/smaps_rollup").read_text()
    assert abs(now["rss_bytes"] - int(re.search(r"Rss: +(\d+) kB", rollup)[1]) * 1024) < 1 << 20
    assert now["live_bytes"] == 900 * 200 and now["at_ns"] == result["run"]["duration_ns"]
    parts = ("live_bytes", "internal_fragmentation_bytes", "mmap_resident_bytes", "allocator_overhead_bytes", "static_bytes", "unrecorded_bytes")
    assert sum(now[name] for name in parts) - now["untouched_bytes"] == now["private_bytes"]
    assert "explained by what was recorded" in read_pid(keeper.target).stdout
    shown = read_pid(keeper.target, "--view", "globals").stdout
    assert re.search(r"variables\n\n  resident  .* of the RSS at ", shown), shown


FORKS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char *volatile kept[2];
int main(void)
{
	memset(kept[0] = malloc(1000000), 1, 1000000);
	pid_t pid = fork();
	if (pid) return waitpid(pid, NULL, 0) != pid;
	memset(kept[1] = malloc(2000000), 1, 2000000);
	printf("%d\\n", getpid());
	fflush(stdout);
	while (getchar() != EOF) {}
	return 0;
}
"""


def test_parts_of_a_forks_memory_are_not_known(heapgauge, scratch, clean_env, read_pid):
    """What it had before the fork is in no profile of its own, and would count as held or not recorded."""
    program = compile_c(scratch, "forks", FORKS)
    with subprocess.Popen([heapgauge, "record", "-q", "-o", scratch / "forks.hg", "--", program], env=clean_env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as run:
        pid = int(run.stdout.readline())
        (now,) = json.loads(read_pid(pid, "--view", "memory", "--format", "json").stdout)["memory"]
        text = read_pid(pid, "--view", "memory").stdout
        run.stdin.close()
    assert now["rss_bytes"] > 3000000 and now["live_bytes"] >= 2000000
    assert [now[name] for name in ("allocator_overhead_bytes", "inherited_bytes", "unrecorded_bytes")] == [None] * 3
    assert re.search(r"\n  \+ held +unknown ", text), text


LATER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *volatile kept[2];
int main(void)
{
	memset(kept[0] = malloc(1000000), 1, 1000000);
	puts("ready");
	fflush(stdout);
	while (getchar() != '\\n') {}
	for (int i = 0; i < 5000; i++)
		memset(kept[1] = malloc(10000), 1, 10000);
	puts("more");
	fflush(stdout);
	while (getchar() != EOF) {}
	return 0;
}
"""


def test_parts_are_not_known_where_recording_has_ended(heapgauge, scratch, clean_env, read_pid):
    program = compile_c(scratch, "later", LATER)
    with subprocess.Popen([heapgauge, "record", "-q", "--duration", "1s", "-o", scratch / "later.hg", "--", program], env=clean_env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "ready\n"
        pid = int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])
        wait_for(lambda: (scratch / "later.hg").exists(), "the recording")
        run.stdin.write("\n")
        run.stdin.flush()
        assert run.stdout.readline() == "more\n"
        summary = read_pid(pid).stdout
        run.stdin.close()
    assert re.search(r"RSS +5\d\.\d MiB at most", summary) and "coverage   unknown" in summary, summary


PAST = """
#include <stdio.h>
#include <string.h>
extern void *__libc_malloc(unsigned long);
int main(void)
{
	for (int i = 0; i < 2500; i++)
		memset(__libc_malloc(10000), 1, 10000);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	return 0;
}
"""


def test_memory_that_was_not_recorded_is_noticed(heapgauge, scratch, clean_env, read_pid):
    """As in a recording of it."""
    program = compile_c(scratch, "past", PAST)
    with subprocess.Popen([heapgauge, "record", "-q", "-o", scratch / "past.hg", "--", program], env=clean_env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "ready\n"
        pid = int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])
        now = json.loads(read_pid(pid, "--view", "health", "--format", "json").stdout)["health"]
        run.stdin.close()
        run.wait(WAIT_SECONDS)
    recorded = subprocess.run([heapgauge, "report", scratch / "past.hg", "--view", "health", "--format", "json"], env=clean_env, capture_output=True, check=True).stdout

    def gap(notes):
        return [note["count"] >> 22 for note in notes if note["name"] == "unexplained_memory"]

    assert gap(now) == gap(json.loads(recorded)["health"]) != []


@pytest.mark.parametrize(("view", "said"), [("memory", "not known where the memory is"), ("globals", "1 process running")])
def test_what_is_not_read_of_a_running_process_is_not_called_ended(heapgauge, scratch, clean_env, view, said):
    """Of one that is read by the file of its profile."""
    with folder_on_tmpfs() as folder:
        env = clean_env | {"LD_PRELOAD": str(heapgauge.parent / "libheapgauge.so"), "HEAPGAUGE_DIR": str(folder)}
        with subprocess.Popen([compile_keeper(scratch)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
            run.stdout.readline()
            (profile,) = folder.glob("*.live")
            done = subprocess.run([heapgauge, "report", profile, "--view", view], env=clean_env, capture_output=True, text=True,
                                  timeout=WAIT_SECONDS, check=True)
            run.stdin.close()
    assert said in done.stdout and "ended" not in done.stdout
