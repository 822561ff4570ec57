# SPDX-License-Identifier: Apache-2.0
"""A recording survives its target, and a target survives its collector."""

import os
import pathlib
import random
import re
import signal
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS, compile_c, open_files, wait_for

MOMENTS = 50 if os.environ.get("HEAPGAUGE_LONG") == "1" else 20


def child_of(pid):
    """The one child of a process, once it is there and has become the target."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.005)
    raise AssertionError("heapgauge started nothing")


def start(heapgauge, path, argv, env):
    return subprocess.Popen(
        [heapgauge, "record", "-q", "-o", path, "--", *argv],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # some tests read the descriptor itself
    )


def acknowledged(output):
    """The last count in a whole line: a count that was printed in part was not acknowledged."""
    counts = re.findall(rb"^ACKNOWLEDGED (\d+)\n", output, re.M)
    return int(counts[-1]) if counts else 0


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_sigkill_at_any_moment_loses_nothing_acknowledged(
    moment, heapgauge, target, clean_env, scratch, report_json
):
    rng = random.Random(20261115 + moment)
    path = scratch / "killed.hg"
    with start(heapgauge, path, [target("kill_me")], clean_env) as collector:
        output = collector.stdout.readline()
        victim = child_of(collector.pid)
        os.set_blocking(collector.stdout.fileno(), False)
        until = time.monotonic() + rng.choice([0.001, 0.02, 0.2, 0.5]) * rng.random()
        while time.monotonic() < until:
            output += collector.stdout.read() or b""
        os.kill(victim, signal.SIGKILL)
        os.set_blocking(collector.stdout.fileno(), True)
        output += collector.stdout.read()
        errors = collector.stderr.read()
        assert collector.wait(WAIT_SECONDS) == -signal.SIGKILL, errors

    process = report_json(path, "summary")["processes"][0]
    assert process["end"] == "killed"
    assert acknowledged(output) > 0
    assert process["calls"] >= acknowledged(output)
    assert process["total_bytes"] > 0 and process["frees"] > 0
    sites = report_json(path, "sites")["sites"]
    in_target = [s for s in sites if any(f["function"] == "take_until_killed" for f in s["stack"])]
    assert sum(s["calls"] for s in in_target) >= acknowledged(output)


def test_the_target_does_not_notice_that_its_collector_was_killed(heapgauge, target, clean_env, scratch):
    program = target("t_threads_cross_free")
    env = clean_env | {"HEAPGAUGE_LONG": "0"}
    # The shell stays the parent: it tells how the target ended, whoever else is gone.
    log = scratch / "target.out"
    script = scratch / "run.sh"
    script.write_text(f'sleep 0.5\n"{program}" >"{log}" 2>&1\necho "ended with $?" >>"{log}"\n')
    collector = start(heapgauge, scratch / "lost.hg", ["/bin/sh", script], env)
    child_of(collector.pid)
    time.sleep(0.2)
    collector.kill()
    collector.communicate()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if log.exists() and "ended with" in log.read_text():
            break
        time.sleep(0.05)
    text = log.read_text()
    assert "ended with 0\n" in text
    bare = subprocess.run([program], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout
    assert text.count("EXPECT") == bare.count("EXPECT") > 0


def test_a_target_that_is_running_survives_the_end_of_its_collector(heapgauge, target, clean_env, scratch):
    """The memory stays mapped: the target goes on allocating into it."""
    with start(heapgauge, scratch / "lost.hg", [target("kill_me")], clean_env) as collector:
        first = acknowledged(collector.stdout.readline())
        victim = child_of(collector.pid)
        collector.send_signal(signal.SIGKILL)
        output = b""
        while acknowledged(output) < first + 200_000:
            chunk = os.read(collector.stdout.fileno(), 1 << 16)
            assert chunk, "the target ended with its collector"
            output = output[-100:] + chunk
        os.kill(victim, signal.SIGKILL)
        collector.stdout.read()


def test_a_stopped_collector_blocks_nobody_and_loses_nothing(
    heapgauge, target, clean_env, scratch, report_json
):
    path = scratch / "stopped.hg"
    env = clean_env | {"HEAPGAUGE_LONG": "0"}
    with start(heapgauge, path, [target("kill_me")], env) as collector:
        output = collector.stdout.readline()
        victim = child_of(collector.pid)
        # Before that it keeps nobody's clock.
        wait_for(lambda: any("heapgauge-profile" in link for link in open_files(collector.pid)), "the collector to hold the profile")
        collector.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            while acknowledged(output) < 300_000 or time.monotonic() < stopped + 1:
                chunk = os.read(collector.stdout.fileno(), 1 << 16)
                assert chunk, "the target ended"
                output = output[-100:] + chunk
        finally:
            stopped_ms = (time.monotonic() - stopped) * 1000
            collector.send_signal(signal.SIGCONT)
        os.kill(victim, signal.SIGKILL)
        output = output[-100:] + collector.stdout.read()
        collector.wait(WAIT_SECONDS)
    process = report_json(path, "summary", clock=True)["processes"][0]
    assert process["calls"] >= acknowledged(output) >= 300_000
    # Its clock stood still, so that lifetimes are too short: that is said.
    assert stopped_ms - 100 < process["health"]["clock_stopped_ms"] < stopped_ms + 1000
    done = subprocess.run([heapgauge, "report", path], capture_output=True, text=True, check=True)
    assert re.search(r"^  ! [\d,]+ ms without a clock tick", done.stdout, re.M), done.stdout


STALLS = r"""
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static void *held(void) { void *p = malloc(100000); __asm__ volatile("" : "+r"(p)); return p; }
int main(void)
{
	void *v[100];
	usleep(300000);
	kill(getppid(), SIGSTOP);
	for (int i = 0; i < 100; i++) v[i] = held();
	usleep(150000);
	for (int i = 0; i < 100; i++) free(v[i]);
	kill(getppid(), SIGCONT);
	usleep(300000);
	return 0;
}
"""


def test_a_short_stall_of_the_collector_is_said(scratch, record, report_json):
    """N17: lifetimes are too short while the collector has no processor, and stalls below 250 ms were not said."""
    run = record([compile_c(scratch, "stalls", STALLS)])
    assert run.returncode == 0, run.stderr
    assert report_json(run.path, "summary", clock=True)["processes"][0]["health"]["clock_stopped_ms"] >= 100


STARTS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	void *volatile p = malloc(10);
	for (int i = 0; i < 5; i++) {
		if (fork() == 0) {
			for (int j = 0; j < 100; j++) p = malloc(50);
			_exit(0);
		}
		wait(NULL);
	}
	for (int j = 0; j < 700; j++) p = malloc(50);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	char byte;
	return read(0, &byte, 1) != 0;
}
"""


def test_a_killed_collector_leaves_who_had_ended_and_the_others_can_be_saved(heapgauge, clean_env, scratch, report_json):
    """C13: SIGKILL of the collector. Its unfinished recording holds the processes that had ended; one that lives is saved by a
    second recording, and goes on as if nothing had happened."""
    program, path = compile_c(scratch, "starts", STARTS), scratch / "run.hg"
    run = subprocess.Popen(
        [heapgauge, "record", "-q", "-o", path, "--", program],
        env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    try:
        pid = int(run.stdout.readline())
        unfinished = scratch / "run.hg.unfinished"

        def ended():
            return unfinished.exists() and len(report_json(unfinished)["processes"]) == 5

        wait_for(ended, "the five children in the unfinished recording")
        run.kill()
        assert run.wait(timeout=WAIT_SECONDS) == -signal.SIGKILL
        assert [p["calls"] for p in report_json(unfinished)["processes"]] == [100] * 5
        assert not path.exists()
        second = subprocess.Popen([heapgauge, "record", "-q", "--pid", str(pid), "-o", scratch / "second.hg"], env=clean_env)
        wait_for(lambda: f"/proc/{pid}/statm" in open_files(second.pid), "the second recording")
        run.stdin.close()
        assert second.wait(timeout=WAIT_SECONDS) == 0
        (saved,) = report_json(scratch / "second.hg")["processes"]
        assert saved["calls"] >= 701
    finally:
        run.kill()
        run.wait(timeout=WAIT_SECONDS)


def test_a_recording_that_ends_leaves_nothing_unfinished(record, scratch):
    run = record([compile_c(scratch, "starts", STARTS)])
    assert run.returncode == 0
    assert not list(scratch.glob("*.unfinished"))
