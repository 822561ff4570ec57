# SPDX-License-Identifier: Apache-2.0
"""C6: recording ends with the program that was started. Whoever lives on is named, recorded as it is then, and let go."""

import os
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, is_alive, wait_for

DORMANT = 0


@pytest.fixture
def leave(heapgauge, target, clean_env, scratch):
    """leave(*options, more): records lives_on; (exit status, what heapgauge said, pid of the daemon). It is ended at last."""
    folder = scratch / "daemon"
    folder.mkdir()
    pids = []

    def run(*options, more=()):
        with open(scratch / "out", "w", encoding="ascii") as out, open(scratch / "err", "w", encoding="ascii") as err:
            # No pipe: the daemon would hold it open.
            done = subprocess.run(
                [heapgauge, "record", "-o", scratch / "run.hg", *options, "--", target("lives_on"), folder, target("show_start"), *more],
                env=clean_env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=WAIT_SECONDS, check=False,
            )
        pids.append(int((folder / "pid").read_text()))
        return done.returncode, (scratch / "err").read_text(), pids[-1]

    yield run
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def told(scratch):
    """What the daemon tells when it is let go on."""

    def ask():
        (scratch / "daemon" / "go").touch()
        path = scratch / "daemon" / "told"
        return wait_for(lambda: path.exists() and path.read_text().endswith("program\n") and path.read_text(), "the daemon")

    return ask


MODES = {"exact": [], "tags": ["--mode", "tags"], "sample": ["--mode", "sample", "--interval", "256B"]}


@pytest.mark.parametrize("mode", MODES)
def test_record_ends_with_the_program_and_lets_the_daemon_go(mode, leave, told, report_json, scratch):
    """C6: it waited for the daemon."""
    status, said, pid = leave(*MODES[mode])
    assert status == 7 and is_alive(pid)
    assert said.startswith(
        f"heapgauge: 1 descendant is still running: lives_on ({pid}).\n  Its current state is in the recording; it is no longer recorded. "
    )
    program, daemon = report_json(scratch / "run.hg")["processes"]
    assert (program["end"], program["exit_code"]) == ("exit", 7)
    assert (daemon["pid"], daemon["end"], daemon["exit_code"]) == (pid, "running", None)
    assert daemon["calls"] >= 5
    first, rest = told().split("\n", 1)
    # A thread that samples looks at the mode when its next sample comes.
    assert first in [f"mode {DORMANT}, {count} recorded" for count in range(1 + (mode == "sample"))]
    assert rest == "child has not a profile\nprogram\n"


def test_a_child_that_was_not_heard_from_is_named_and_stays_off(leave, told, report_json, scratch):
    """C6: it has no profile of its own that could say so."""
    status, said, pid = leave(more=["silent"])
    assert status == 7 and is_alive(pid)
    assert f"1 descendant is still running: lives_on ({pid}).\n" in said
    assert len(report_json(scratch / "run.hg")["processes"]) == 1
    lines = told().splitlines()
    assert lines[0].endswith(" 0 recorded") and "sees LD_PRELOAD=" not in lines and "sees HEAPGAUGE_" not in lines


def test_quiet_ends_too_and_says_nothing(leave):
    status, said, pid = leave("-q")
    assert (status, said) == (7, "") and is_alive(pid)


def test_a_time_to_wait_is_kept(leave, report_json, scratch):
    status, said, pid = leave("--wait", "700ms")
    assert status == 7 and is_alive(pid)
    assert f" has ended, 1 descendant is still running: lives_on ({pid}).\n" in said
    assert "Recording continues until it ends, for at most 700.0 ms; press Ctrl-C twice to stop.\n" in said
    assert f"heapgauge: 1 descendant is still running: lives_on ({pid}).\n" in said
    daemon = report_json(scratch / "run.hg")["processes"][-1]
    assert daemon["end"] == "running" and daemon["duration_ns"] >= 700e6


@pytest.mark.parametrize("wait", ["all", "1h"])
def test_waiting_ends_with_the_last_descendant(wait, heapgauge, target, clean_env, scratch, report_json):
    folder = scratch / "daemon"
    folder.mkdir()
    (folder / "go").touch()
    done = subprocess.run(
        [heapgauge, "record", "-q", "--wait", wait, "-o", scratch / "run.hg", target("lives_on"), folder, target("show_start")],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
    assert (folder / "told").read_text().splitlines()[1] == "child has a profile"
    processes = report_json(scratch / "run.hg")["processes"]
    assert len(processes) == 4 and not [p for p in processes if p["end"] == "running"]


PIPELINE = "seq 1000 | sort -n | tail -1; (sleep 0.05; true) & wait"


def test_what_a_shell_waits_for_is_recorded_to_its_end(record, report_json, scratch):
    (scratch / "Makefile").write_text("all: a b c\na b c:\n\t@sleep 0.05; echo $@\n", encoding="ascii")
    run = record(["sh", "-c", PIPELINE + "; make -s -j3"])
    assert run.returncode == 0 and run.stdout.startswith("1000\n") and sorted(run.stdout.split()[1:]) == ["a", "b", "c"]
    assert not [p for p in report_json(run.path)["processes"] if p["end"] == "running"]


LATE = r"""
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	int ends[2];
	char byte = 0;
	if (pipe(ends) != 0) return 1;
	if (fork() == 0) { void *volatile block = malloc(10); write(ends[1], &byte, 1); usleep(20000); _exit(0); }
	read(ends[0], &byte, 1);
	return 3;
}
"""


def test_a_descendant_that_is_on_its_way_out_is_waited_for(record, report_json, scratch):
    run = record([compile_c(scratch, "late", LATE)], timeout=WAIT_SECONDS)
    assert run.returncode == 3
    assert [process["end"] == "running" for process in report_json(run.path)["processes"]] == [False, False]


def test_a_wrong_time_is_a_usage_error(record, target):
    run = record([target("does_nothing")], "--wait", "some")
    assert run.returncode == 2 and "--wait takes a time such as 10s, or all, not some" in run.stderr
    run = record([], "--wait", "all", "--pid", "1")
    assert run.returncode == 2 and "--wait cannot be combined with --pid" in run.stderr
