# SPDX-License-Identifier: Apache-2.0
"""Many more threads than processors (H3): a recorded program does what it does bare, and nobody spins for a lock whose owner has
no processor. CPU time is compared, not the clock: spinning is what it shows, and another program on the machine does not change it
much.
"""

import os
import subprocess

import pytest

from compiled import losses

LIMIT_SECONDS = 300
# Exact recording of a program that does nothing but allocate takes about twice its time; waiters that spin took 11 times.
MOST_TIMES = 5


def run_measured(argv, env):
    """What it printed, and its seconds of CPU with those of its descendants."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
        try:
            output, _ = child.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            pytest.fail(f"{argv} did not end")
    assert child.returncode == 0, output
    return output


def cpu_of(argv, env):
    before = os.times()
    output = run_measured(argv, env)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return output, used


TIMES = 6 if os.environ.get("HEAPGAUGE_LONG") == "1" else 1
CROWDS = [
    pytest.param("exact", 10000 * TIMES, 512, id="512 threads"),
    pytest.param("exact", 5000 * TIMES, 1000, id="1000 threads"),
    pytest.param("sample", 5000 * TIMES, 1000, id="1000 threads, sampled"),
]


@pytest.mark.parametrize("mode, turns, threads", CROWDS)
def test_h3_a_crowd_of_threads_spends_no_time_waiting(target, build, clean_env, mode, turns, threads):
    argv = [target("t_threads_crowd"), str(turns), str(threads)]
    bare, bare_seconds = cpu_of(argv, clean_env)
    preload = {"LD_PRELOAD": str(build / "libheapgauge.so"), "HEAPGAUGE_MODE": mode}
    recorded, seconds = cpu_of(argv, clean_env | preload)
    assert recorded == bare
    assert seconds < MOST_TIMES * bare_seconds + 1


@pytest.mark.parametrize("mode", ["exact", "sample"])
def test_h3_a_crowd_is_recorded(target, record, report_json, mode):
    run = record([target("t_threads_crowd"), "5000", "1000"], "--mode", mode, timeout=LIMIT_SECONDS)
    assert run.returncode == 0
    process = report_json(run.path)["processes"][0]
    assert process["threads"] == 1001
    # Nothing, unless the machine is so busy that an owner had no processor for a tenth of a second.
    assert set(losses(process)) <= {"lock_timeouts", "unsited_calls", "lost_samples"}
