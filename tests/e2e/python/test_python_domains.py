# SPDX-License-Identifier: Apache-2.0
"""The allocators of Python as pools: the same blocks, to the byte, that tracemalloc has of each line; and what is set for malloc."""

import collections
import json
import pathlib
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS
from test_python_stacks import interpreters, python_part

PROGRAM = pathlib.Path(__file__).parent / "domains_program.py"
DOMAINS = {"python.raw", "python.mem", "python.object"}
LINES = [i for i, line in enumerate(PROGRAM.read_text().split("def main")[0].split("\n"), 1) if line.startswith("    ") and "def " not in line]


@pytest.fixture
def report_text(heapgauge, clean_env):
    """report_text(path): the summary as people see it."""

    def run(path):
        argv = [heapgauge, "report", path]
        return subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout

    return run


def live_lines(sites):
    """[bytes, blocks] that are live at the end, by the line of the program that holds them."""
    lines = collections.defaultdict(lambda: [0, 0])
    for site in sites:
        frames = python_part(site)
        # python.raw has what tracemalloc needs for itself.
        if frames and frames[0][1] == str(PROGRAM) and site["not_freed_blocks"] and site["pool"] != "python.raw":
            lines[frames[0][2]][0] += site["not_freed_bytes"]
            lines[frames[0][2]][1] += site["not_freed_blocks"]
    return lines


@pytest.mark.parametrize("place", ["above", "under"])
@pytest.mark.parametrize("version, path", interpreters().items())
def test_blocks_are_those_of_tracemalloc(version, path, place, record, report_json):
    env = {"PYTHONTRACEMALLOC": "1"} if place == "under" else {}  # before anybody else could be there
    run = record([path, PROGRAM, place], "--python", "domains", env=env, timeout=WAIT_SECONDS)
    assert run.returncode == 0, run.stderr
    truth = {int(line): row for line, row in json.loads(run.stdout).items() if int(line) in LINES}
    sites = report_json(run.path, "sites", "--limit", "1000000", "--kind", "pool")["sites"]
    assert {site["pool"] for site in sites} == DOMAINS
    seen = {line: row for line, row in live_lines(sites).items() if line in LINES}
    assert len(truth) > 8 and sum(count for _, count in truth.values()) > 5_000
    assert seen == truth


def test_domains_explain_the_arenas(record, report_json, report_text):
    python = next(iter(interpreters().values()))
    script = "x = [object() for _ in range(400_000)]"
    native = record([python, "-c", script])
    assert native.returncode == 0 and "for Python's objects: record --python domains shows them" in report_text(native.path)
    domains = record([python, "-c", script], "--python", "domains")
    summary = report_text(domains.path)
    assert domains.returncode == 0 and "Python's objects" not in summary
    assert re.search(r"pools +\S+ MiB at most in python.object, the largest of 3 pools", summary), summary
    (most,) = report_json(domains.path, "sites", "--kind", "pool", "--cost", "calls", "--limit", "1")["sites"]
    assert most["calls"] >= 400_000 and most["pool"] == "python.object"


def test_malloc_is_a_setting_of_the_interpreter(record, report_json):
    python = next(iter(interpreters().values()))
    script = "import os; print(os.environ['PYTHONMALLOC']); x = [object() for _ in range(100_000)]"
    run = record([python, "-c", script], "--python", "malloc")
    assert run.returncode == 0 and run.stdout == "malloc\n", run.stderr
    assert report_json(run.path)["processes"][0]["calls"] > 100_000


def test_a_fork_goes_on(record, report_json):
    """The child's own blocks, and nothing about those that it has from its parent."""
    script = """
import os
x = [object() for _ in range(1000)]
if os.fork() == 0:
    x.clear()
    y = [bytes(100) for _ in range(5000)]
    os._exit(0)
os.wait()
"""
    python = next(iter(interpreters().values()))
    run = record([python, "-c", script], "--python", "domains")
    assert run.returncode == 0, run.stderr
    processes = report_json(run.path, "summary")["processes"]
    assert len(processes) == 2
    child = str(processes[1]["pid"])
    sites = report_json(run.path, "sites", "--kind", "pool", "--limit", "100000", "--process", child)["sites"]
    assert sum(site["not_freed_blocks"] for site in sites) in range(5000, 5300)
    assert "unknown_frees" not in processes[1]["health"] and "unknown_frees" not in processes[0]["health"]


def test_neither_the_interpreter_nor_the_recorder_is_on_the_stack(record, report_json, scratch):
    script = scratch / "script.py"
    script.write_text("def hold():\n    return [bytes(100_000) for _ in range(10)]\n\n\nx = hold()\n")
    python = next(iter(interpreters().values()))
    run = record([python, script], "--python", "domains")
    assert run.returncode == 0, run.stderr
    for kind in "heap", "pool":
        sites = report_json(run.path, "sites", "--kind", kind, "--min-size", "100000", "--limit", "100")["sites"]
        (site,) = [site for site in sites if site["calls"] == 10]
        modules = {pathlib.Path(frame["module"]).name for frame in site["stack"]}
        assert {"script.py"} < modules and not [name for name in modules if re.match(r"(lib)?(python|heapgauge)", name)], modules


TWICE = """
import ctypes
ctypes.pythonapi.PyMem_SetupDebugHooks()  # looks whether its functions are there already
kept = [bytes(100) for _ in range(100_000)]
print("alive", len(kept))
"""


@pytest.mark.parametrize("version, path", interpreters().items())
def test_debug_hooks_are_left_alone(version, path, record, report_json):
    """They and the recorder's functions would have called each other for ever."""
    run = record([path, "-c", TWICE], "--python", "domains", env={"PYTHONMALLOC": "debug"}, timeout=WAIT_SECONDS)
    assert run.returncode == 0 and run.stdout == "alive 100000\n", run.stderr
    (process,) = report_json(run.path)["processes"]
    assert process["health"]["python_domains"] == 1


def test_what_is_not_recorded_is_counted(record, report_json):
    """No stack says whether it is safe to look, nothing was recorded, and nobody said so."""
    python = next(iter(interpreters().values()))
    run = record([python, "-c", "x = [object() for _ in range(100_000)]"], "--python", "domains", "--depth", "2")
    assert run.returncode == 0, run.stderr
    (process,) = report_json(run.path)["processes"]
    assert process["health"]["python_domains"] == 1
    assert report_json(run.path, "sites", "--kind", "pool")["sites"] == []


def test_tags_need_no_domains(record):
    run = record(["true"], "--python", "domains", "--mode", "tags")
    assert run.returncode == 2 and "--python domains needs stacks, which --mode tags does not record" in run.stderr
