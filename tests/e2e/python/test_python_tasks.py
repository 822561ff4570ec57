# SPDX-License-Identifier: Apache-2.0
"""asyncio tasks as labels: what a task allocates has its name, to the byte, from Python 3.14 on; older versions say that they have none."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, losses
from test_python_stacks import interpreters

ROOT = pathlib.Path(__file__).parents[3]
PROGRAM = pathlib.Path(__file__).parent / "tasks_program.py"
SIZE = 100_000

TAKER = r"""
#include <stdlib.h>
static void *volatile kept[64];
static int count;
void take(size_t bytes) { kept[count++] = calloc(1, bytes); }
"""


def all_interpreters():
    """Those of interpreters(), and any that publish their tasks."""
    found = dict(interpreters())
    newer = [*pathlib.Path.home().glob(".pyenv/versions/3.1[45].*/bin/python3"), "/usr/bin/python3", *map(shutil.which, ["python3.14", "python3.15"])]
    for path in filter(None, newer):
        script = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
        done = subprocess.run([path, "-c", script], capture_output=True, text=True)
        if done.returncode == 0 and tuple(map(int, done.stdout.split(".")[:2])) in [(3, 14), (3, 15)]:
            found[done.stdout.strip()] = path
    return found


def publishes(version):
    return tuple(map(int, version.split(".")[:2])) >= (3, 14)


def live_by_label(report_json, path):
    only = ["--kind", "heap", "--min-size", str(SIZE), "--focus", "^(hold|take)$"]
    rows = report_json(path, "functions", "--by", "label", "--cost", "live", "--limit", "1000", *only)["labels"]
    return {row["label"]: row["live_bytes"] for row in rows if row["live_bytes"]}


@pytest.mark.parametrize("python", ["native", "domains"])
@pytest.mark.parametrize("version, path", all_interpreters().items())
def test_each_task_has_what_it_allocated(version, path, python, scratch, record, report_json, heapgauge, clean_env):
    library = compile_c(scratch, "take.so", TAKER, "-shared", "-fPIC")
    run = record([path, PROGRAM, library], "--python-tasks", "--python", python, timeout=WAIT_SECONDS)
    assert run.returncode == 0, run.stderr
    truth = json.loads(run.stdout)
    lost = losses(report_json(run.path)["processes"][0])
    labels = live_by_label(report_json, run.path)
    if publishes(version):
        assert len(truth) > 45 and labels == truth
        assert "python_no_tasks" not in lost and "python_tasks" not in lost
    else:
        assert labels == {"(no label)": sum(truth.values())}
        assert lost["python_no_tasks"] == 1
        said = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS).stdout
        assert "do not say which asyncio task runs: needs 3.14 or newer" in said


def test_without_the_option_there_are_no_labels(record, report_json):
    version, path = list(all_interpreters().items())[-1]
    run = record([path, PROGRAM], timeout=WAIT_SECONDS)
    assert run.returncode == 0, run.stderr
    assert live_by_label(report_json, run.path) == {"(no label)": sum(json.loads(run.stdout).values())}
    assert not {"python_no_tasks", "python_tasks"} & set(losses(report_json(run.path)["processes"][0])), version


@pytest.mark.parametrize("seed, earlier", [(1, 0), (2, 0), (3, 1)])
@pytest.mark.parametrize("minor", [14, 15])
def test_tasks_that_are_not_what_they_should_be_harm_nobody(minor, seed, earlier, scratch, record, report_json):
    """An interpreter of this version that has tasks, whose words are changed at random. 3.14.2 has the task a word before where 3.14.4 has it."""
    targets = ROOT / "tests" / "targets"
    source = (targets / "stacks" / f"t_python_3_{minor}.c").read_text()
    program = compile_c(scratch, "interpreter", source, "-Wl,-E", "-pthread", f"-I{targets}", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}")
    run = record([program, "1500", str(seed), str(earlier)], "--python-tasks", timeout=WAIT_SECONDS)
    assert run.returncode == 0, run.stderr
    (process,) = report_json(run.path)["processes"]
    assert process["calls"] >= int(re.search(r"process calls=(\d+)", run.stdout + run.stderr)[1])
    assert 0 < process["health"]["python_tasks"] < process["calls"] / 2
    rows = report_json(run.path, "functions", "--by", "label", "--cost", "calls", "--limit", "1000")["labels"]
    named = {row["label"]: row["calls"] for row in rows if row["calls"] > 50}
    # As make_text() of python_state.h makes them: the first eight.
    names = {"".join(chr(ord("a") + (n + i) % 26) for i in range(1 + n % 20)) for n in range(8)}
    assert set(named) == {"(no label)"} | {f"task={name}" for name in names}


def test_a_forked_child_begins_anew(scratch, record, report_json):
    """It looks for its tasks at once, and counts what it could not read itself: as the same program without a parent."""
    targets = ROOT / "tests" / "targets"
    source = (targets / "stacks" / "t_python_3_14.c").read_text()
    program = compile_c(scratch, "interpreter", source, "-Wl,-E", "-pthread", f"-I{targets}", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}")
    seen = []
    for more in [], ["fork"]:
        run = record([program, "200", "3", "1", *more], "--python-tasks", timeout=WAIT_SECONDS)
        assert run.returncode == 0, run.stderr
        seen.append([(p["calls"], p["health"]["python_tasks"]) for p in report_json(run.path)["processes"]])
    (alone,), (parent, child) = seen
    assert child == alone and 1 < alone[1] < alone[0] / 2
    assert 0 < parent[1] < parent[0]


@pytest.mark.parametrize(
    "options, reason",
    [
        (["--mode", "tags", "true"], "--python-tasks needs stacks"),
        (["--stacks-from", "1K", "true"], "--python-tasks needs a stack for every block"),
        (["--pid", "1"], "set HEAPGAUGE_PYTHON_TASKS=1 there"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options, reason, heapgauge, clean_env):
    run = subprocess.run([heapgauge, "record", "--python-tasks", *options], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert run.returncode == 2 and reason in run.stderr
