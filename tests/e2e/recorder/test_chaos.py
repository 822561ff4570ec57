# SPDX-License-Identifier: Apache-2.0
"""A recorder that is delayed, that waits in vain for locks and is refused memory and system calls, at random: the program does what
it does alone, and what the recorder could not do is counted. The checking build does that to itself (src/recorder/checks/chaos.h), and
traps where one of its invariants breaks.

Each seed runs one program; HEAPGAUGE_CHAOS_SEEDS=FIRST-LAST repeats some."""

import os
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS
from test_targets import inconsistencies, parse

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
FIRST, LAST = map(int, os.environ.get("HEAPGAUGE_CHAOS_SEEDS", "1-2000" if LONG else "1-50").split("-"))
RUNS_PER_TEST = 10
NOTHING_RECORDED = 125  # the command's own status

# Short ones that between them come to every part of the recorder, and always allocate the same.
PROGRAMS = [
    "t_threads_peak",
    "t_tags",
    "t_fork_threads",
    "t_pools",
    "t_realloc_rules",
    "t_mmap_remap",
    "t_cxx_operators",
    "t_dlopen_plugin",
    "t_fork_exec",
    "t_threads_many",
    "t_peak_exact",
    "t_throw_across",
    "t_stack_ucontext",
    "t_limits_itself",
    "t_small_stacks",
    "t_fork_children",
]
# Every fourth round of the programs is sampled.
SAMPLED = ["--mode", "sample", "--interval", "4KiB"]
# What a call that was not recorded is counted as, and a free of a block that is not known.
LOST_CALLS = ("early_calls", "unregistered_calls", "reentrant_calls", "abandoned_hooks", "lost_samples")
LOST_FREES = (*LOST_CALLS, "unknown_frees", "untracked_blocks", "unknown_ends")
LOST_END = "lost_end"  # of a profile that went with its process: the numbers are those of some moment before
# Without its lock the peak is not what it was, and counted as that.
PEAK = "peak"
CALM = {}  # name -> what it does alone, and what is recorded when nothing goes wrong


@pytest.fixture
def run(build, target, record, report_json, clean_env, scratch):
    """run(program, seed, *options): what it does alone; what a recording says of it when nothing goes wrong; a run with chaos."""
    checked = {"HEAPGAUGE_RECORDER": str(build / "libheapgauge-checked.so")}

    def three(name, seed, *options):
        program = target(name)
        if name not in CALM:
            alone = subprocess.run(
                [program], env=clean_env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
            )
            CALM[name] = alone, report_json(record([program], env=checked).path)["processes"][0]
        env = checked | {"HEAPGAUGE_CHAOS": str(seed)}
        return *CALM[name], record([program], *options, env=env, timeout=WAIT_SECONDS)

    return three


def not_counted(calm, process):
    """Sentences about every number that is not what it is in a calm run, and that no counter explains."""
    health = process["health"]
    lost_calls = sum(health.get(name, 0) for name in LOST_CALLS)
    lost_frees = sum(health.get(name, 0) for name in LOST_FREES)
    wrong = []
    for column, lost in [("calls", lost_calls)] + ([] if process["samples"] else [("frees", lost_frees)]):
        if not calm[column] - lost <= process[column] <= calm[column]:
            wrong.append(f"{column} is {process[column]}, {calm[column]} when calm, {lost} counted as lost")
    if lost_calls == 0 and process["total_bytes"] != calm["total_bytes"]:
        wrong.append(f"bytes is {process['total_bytes']}, {calm['total_bytes']} when calm, and nothing is counted as lost")
    return wrong


def check(seed, run, report_json):
    """Whether the program was recorded."""
    name = PROGRAMS[seed % len(PROGRAMS)]
    sampled = SAMPLED if seed // len(PROGRAMS) % 4 == 3 else []
    alone, calm, chaotic = run(name, seed, *sampled)
    said = f"HEAPGAUGE_CHAOS={seed} {name}: {chaotic.stderr}"
    stderr = re.sub(r"^heapgauge: .*\n", "", chaotic.stderr, flags=re.M)  # what was lost
    nothing = "heapgauge: nothing was recorded" in chaotic.stderr
    assert chaotic.returncode == (NOTHING_RECORDED if nothing else alone.returncode), said
    assert parse(chaotic.stdout).output == parse(alone.stdout).output, said
    if nothing:
        return False
    assert stderr == alone.stderr, said
    processes = report_json(chaotic.path)["processes"]
    process = next((p for p in processes if p["command"] == calm["command"]), None)
    if process is None:  # its children were recorded, and it was not
        return False
    sites = [s for s in report_json(chaotic.path, "sites")["sites"] if s["pid"] == process["pid"]]
    if LOST_END in process["health"]:
        return True
    wrong = not_counted(calm, process)
    for line in inconsistencies(process, sites):
        # Calls and bytes of a sampled process are counted, and those of its sites are estimates.
        if not (sampled and re.match("process (calls|total_bytes) is", line)) and (PEAK not in line or not process["health"]):
            wrong.append(line)
    assert not wrong, said + "\n".join(wrong) + f"\n{process['health']}"
    return True


@pytest.mark.parametrize("first", range(FIRST, LAST + 1, RUNS_PER_TEST))
def test_the_program_does_not_notice(first, run, report_json):
    recorded = [check(seed, run, report_json) for seed in range(first, min(first + RUNS_PER_TEST, LAST + 1))]
    assert any(recorded) or len(recorded) < RUNS_PER_TEST, "none of the programs was recorded"
