# SPDX-License-Identifier: Apache-2.0
"""record --duration: the recording is written at that time, and the program runs on unharmed."""

import os
import signal
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS, compile_c
from running import compile_keeper, keeping

# Holds 1000 blocks at the start, waits for a line, and then takes 5000 more in a child that it forks and execs.
STAGES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile blocks[5000];
__attribute__((noinline)) void early(void) { for (int i = 0; i < 1000; i++) blocks[i] = malloc(100); __asm__(""); }
__attribute__((noinline)) void late(void) { for (int i = 0; i < 5000; i++) blocks[i] = malloc(100); __asm__(""); }
int main(int argc, char **argv)
{
	char line[8];
	if (argc > 1) { late(); return 0; }
	alarm(600);
	early();
	if (read(0, line, sizeof line) < 0) return 1;
	late();
	if (fork() == 0) { execl("/proc/self/exe", "stages", "again", NULL); _exit(1); }
	wait(NULL);
	return 7;
}
"""


@pytest.fixture
def start(heapgauge, scratch, clean_env):
    """Starts the program with --duration; .path is its recording, which is there when this returns."""
    program = compile_c(scratch, "stages", STAGES)

    def start(*options):
        path = scratch / "run.hg"
        argv = [heapgauge, "record", "--duration", "2s", "-o", path, *options, program]
        run = subprocess.Popen(argv, env=clean_env, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.path = path
        end = time.monotonic() + WAIT_SECONDS
        while not path.exists():
            assert time.monotonic() < end and run.poll() is None
            time.sleep(0.02)
        return run

    return start


def calls_of(report_json, path, function):
    return sum(site["calls"] for site in report_json(path, "sites")["sites"] if site["stack"][0]["function"] == function)


def test_the_program_runs_on_and_its_status_is_passed_on(start, report_json):
    run = start()
    assert run.poll() is None
    _, messages = run.communicate("go\n", timeout=WAIT_SECONDS)
    assert run.returncode == 7
    assert "1 process is still running: stages" in messages and "no longer recorded" in messages
    assert "wrote " in messages or run.path.name in messages
    processes = report_json(run.path)["processes"]
    assert [(p["end"], p["duration_ns"] >= 1_900_000_000) for p in processes] == [("running", True)]
    assert calls_of(report_json, run.path, "early") == 1000
    assert calls_of(report_json, run.path, "late") == 0


def test_a_signal_still_reaches_the_program(start):
    run = start("-q")
    run.send_signal(signal.SIGTERM)
    _, messages = run.communicate(timeout=WAIT_SECONDS)
    assert (run.returncode, messages) == (-signal.SIGTERM, "")


def test_budgets_are_checked_on_what_was_recorded(record, scratch):
    budgets = scratch / "budgets.ini"
    budgets.write_text("[*]\nmax-peak = 1KiB\n")
    done = record(["/bin/sh", "-c", "sleep 4"], "--duration", "2s", "--check", budgets)
    assert done.returncode == 1 and "1KiB" in done.stderr.replace(" ", "").replace("1.0KiB", "1KiB")


def test_a_program_that_ends_before_is_recorded_as_ever(record, report_json):
    done = record(["/bin/sh", "-c", "exit 3"], "--duration", "1min")
    assert done.returncode == 3
    assert report_json(done.path)["processes"][0]["end"] == "exit"


def test_a_process_that_is_attached_to_runs_on(heapgauge, scratch, clean_env, report_json):
    env = clean_env | {"LD_PRELOAD": str(heapgauge.parent / "libheapgauge.so"), "HEAPGAUGE_MODE": "dormant"}
    with keeping([compile_keeper(scratch)], env) as kept:
        argv = [heapgauge, "record", "--duration", "500ms", "-o", scratch / "run.hg", "-p", str(kept.target)]
        before = time.monotonic()
        done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0 and time.monotonic() - before >= 0.5
        os.kill(kept.target, 0)
        listed = subprocess.run([heapgauge, "list"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        (line,) = [line for line in listed.stdout.splitlines() if line.split()[:1] == [str(kept.target)]]
        assert "dormant" in line
    assert report_json(scratch / "run.hg")["processes"][0]["end"] == "running"


@pytest.mark.parametrize("value", ["0", "soon", "-1s"])
def test_a_duration_is_a_time(value, heapgauge, clean_env):
    argv = [heapgauge, "record", "--duration", value, "/bin/true"]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 2 and "--duration takes a time such as 30s" in done.stderr
