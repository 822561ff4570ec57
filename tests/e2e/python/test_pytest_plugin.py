# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, in a real pytest: who is over a limit fails, and the message names the line; all else is as always."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from bindings import every_python, with_package
from compiled import WAIT_SECONDS
from test_python_stacks import interpreters

PROJECT = pathlib.Path(__file__).parent / "project"
EXCEEDING = {"test_peak_is_exceeded", "test_leak_is_seen", "test_a_cache_is_a_leak", "test_threads_of_the_test_count"}
BROKEN = {"test_ends_its_process", "test_has_an_unknown_limit", "test_has_a_limit_that_is_no_size"}
FAILING = {"test_fails_as_always", "test_raises_what_cannot_be_pickled"}
SKIPPED = {"test_skips_as_always", "test_fails_as_expected"}


def with_pytest():
    """Of every Python, those that have pytest."""
    has = [sys.executable, "-c", "import pytest"]
    return [(version, path) for version, path in every_python() if subprocess.run([path, *has[1:]], capture_output=True).returncode == 0]


@pytest.fixture
def env(build, clean_env):
    return with_package(clean_env, build)


@pytest.fixture
def run(env, scratch):
    """run(*options): (what was printed, {test: testcase of the JUnit report})."""
    shutil.copytree(PROJECT, scratch / "project", ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))

    def run(*options, path=sys.executable, under=(), more=None, plain=False):
        argv = [*under, path, "-m", "pytest", "-p", "heapgauge.pytest_plugin", "-p", "no:cacheprovider", "--junitxml=../all.xml", *options]
        own = env | (more or {})
        own.pop("PYTEST_ADDOPTS", None)
        done = subprocess.run(argv, env=own, cwd=scratch / "project", capture_output=True, text=True, timeout=WAIT_SECONDS)
        said = done.stdout + done.stderr
        if plain:
            return said
        cases = {case.get("name"): case for case in xml.etree.ElementTree.parse(scratch / "all.xml").iter("testcase")}
        assert cases, said
        return said, cases

    return run


def line(name, text):
    """Where the text stands in a file of the project."""
    (number,) = [i for i, one in enumerate((PROJECT / name).read_text().splitlines(), 1) if text in one]
    return f"{name}:{number}"


LEAKING = line("limits.py", "    kept.append(bytes(1000))  # seven times") + " in test_leak_is_seen"
READING = line("readers.py", "bytes(1_000_000)") + " in read_all"
CACHING = line("readers.py", "[number] * 1000") + " in cached"


def outcome(cases, kind):
    return {name for name, case in cases.items() if case.find(kind) is not None}


def message(cases, name):
    return cases[name].find("failure").text


def properties(case):
    return {one.get("name"): one.get("value") for one in case.iter("property")}


@pytest.mark.parametrize("version, path", with_pytest())
def test_limits_are_checked_and_lines_named(version, path, run):
    said, cases = run("--heapgauge", "-W", "error::DeprecationWarning", path=path)
    assert outcome(cases, "failure") == EXCEEDING | FAILING | BROKEN, said
    assert outcome(cases, "skipped") == SKIPPED and not outcome(cases, "error")

    peak = message(cases, "test_peak_is_exceeded")
    assert "test_peak_is_exceeded holds 2.9 MiB at its peak, and its limit is 1MB:\n" in peak
    assert re.search(r"\n +2\.9 MiB in \d blocks  " + READING, peak), peak
    leak = message(cases, "test_leak_is_seen")
    assert re.search(r"does not free (7\.\d KiB in 8 blocks), and its limit is 0:\n +\1  " + LEAKING, leak), leak
    assert CACHING in message(cases, "test_a_cache_is_a_leak")
    assert "5.7 MiB in" in message(cases, "test_threads_of_the_test_count") and "<lambda>" in message(cases, "test_threads_of_the_test_count")

    table = said[said.index("heapgauge: memory of the marked tests") :]
    assert re.search(r"^ +\d\.\d KiB +0 B  limits.py::test_nothing_is_held$", table, re.M), table
    assert re.search(r"^ +2\.3 MiB +0 B  limits.py::test_within_both_limits$", table, re.M), table
    assert "'peak_bytes': " in properties(cases["test_within_both_limits"])["heapgauge"]


def test_what_happens_in_the_child_is_passed_on(run):
    said, cases = run("--heapgauge")
    failed = message(cases, "test_fails_as_always")
    assert "assert [1, 2] == [1, 3]" in failed and "limits.py:" in failed
    assert "said before it failed" in said and properties(cases["test_fails_as_always"])["seen"] == "3"
    assert "Unpicklable: this and that" in message(cases, "test_raises_what_cannot_be_pickled")
    assert "was killed by SIGABRT" in message(cases, "test_ends_its_process")
    assert "takes peak, leaked and warmup, not peek" in message(cases, "test_has_an_unknown_limit")
    assert "not 'much'" in message(cases, "test_has_a_limit_that_is_no_size")


def test_without_the_option_nothing_is_checked(run):
    _, cases = run("-k", "not without_a_mark")
    assert outcome(cases, "failure") == FAILING and "heapgauge" not in properties(cases["test_within_both_limits"])


@pytest.mark.skipif(not importlib.util.find_spec("xdist"), reason="pytest-xdist is not installed")
def test_workers_of_xdist_measure_too(run):
    said, cases = run("--heapgauge", "-n", "2")
    assert outcome(cases, "failure") == EXCEEDING | FAILING | BROKEN, said
    assert LEAKING in message(cases, "test_leak_is_seen") and "memory of the marked tests" in said


def test_the_recording_is_kept_if_wanted(run, scratch, report_json):
    run("--heapgauge", "--heapgauge-output=../tests.hg", "-k", "leak_is_allowed or without_a_mark")
    processes = report_json(scratch / "tests.hg", "processes")["processes"]
    assert [process["calls"] > 0 for process in processes] == [False, True]
    (site,) = report_json(scratch / "tests.hg", "leaks", "--min-size", "1033", "--max-size", "1033")["sites"]
    assert site["not_freed_bytes"] == 1033
    assert not (scratch / "project" / "tests.hg").exists()


def test_what_cannot_work_is_said(run, heapgauge, scratch):
    def refused(**how):
        return run("--heapgauge", plain=True, **how)

    own = [heapgauge, "record", "-q", "-o", scratch / "own.hg", "--"]
    assert "does not see Python's objects; start pytest without" in refused(under=own)
    assert "cannot be recorded; 'heapgauge doctor" in refused(more={"HEAPGAUGE_DISABLE": "1"})
    assert "is not on PATH" in refused(more={"PATH": "/nowhere"}) or "cannot be loaded" in refused(more={"PATH": "/nowhere"})


# Seven blocks of 1033 bytes, and what the list of seven needs: room for eight pointers.
MEASURED = """
from heapgauge import _measure
kept = []

def leak():
    for _ in range(7):
        kept.append(bytes(1000))

def cycles():
    for i in range(1000):
        one = [1.5 * i, (i, i), {i: i}]
        one.append(one)

def fail():
    raise KeyError(3)

for call in (lambda: None, cycles, leak, fail):
    measured = _measure.measure(call, repr)
    print(measured.peak_bytes >= measured.leaked_bytes, measured.result, end=" ")
    if call is not fail:
        print(measured.leaked_bytes, measured.leaked_blocks, [line.frames[0][0] for line in measured.leaked_lines])
"""


@pytest.mark.parametrize("version, path", interpreters().items())
def test_numbers_are_exact_in_every_python(version, path, env, record):
    run = record([path, "-c", MEASURED], "--start", "dormant", "--python", "malloc", env=env)
    assert run.returncode == 0, run.stderr
    none, leak = "True None 0 0 []\n", f"True None {7 * 1033 + 64} 8 ['leak']\n"
    assert run.stdout == f"{none}{none}{leak}True KeyError(3) "


def test_sizes_are_those_of_the_command(env):
    program = """
from heapgauge.pytest_plugin import parse_bytes
good = {"4096": 4096, "64KiB": 65536, "64 M": 64 << 20, "1.5GiB": 3 << 29, "10MB": 10**7, "7b": 7, 12: 12, 0: 0}
assert {text: parse_bytes(text) for text in good} == good
for bad in ("much", "1.", "-1", -1, "4iB", "10 XB", True, None, 1.5):
    try:
        parse_bytes(bad)
    except ValueError as error:
        assert repr(bad) in str(error)
    else:
        assert bad == 1.5
"""
    subprocess.run([sys.executable, "-c", program], env=env, check=True)


OTHERS = '''
import multiprocessing, time, unittest
import pytest

pytestmark = pytest.mark.heapgauge(peak="100MB")

class TestCase(unittest.TestCase):
    def test_case_fails(self):
        self.fail("as unittest does")

    def test_case_skips(self):
        self.skipTest("as unittest does")

    @unittest.expectedFailure
    def test_case_fails_as_expected(self):
        self.fail("as unittest does")

    def test_case_passes(self):
        self.assertTrue(True)

def test_leaves_a_worker():
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(WAIT,), daemon=True).start()
'''


def test_what_raises_nothing_and_what_lives_on(run, scratch):
    """unittest keeps what a test raised: such failures were passed. And whoever waited for the end of the pipe waited for workers."""
    (scratch / "project" / "test_others.py").write_text(OTHERS.replace("WAIT", str(2 * WAIT_SECONDS)))
    said, cases = run("--heapgauge", "test_others.py")
    children = {name: {child.tag for child in case} - {"properties", "system-out", "system-err"} for name, case in cases.items()}
    assert children == {
        "test_case_fails": {"failure"},
        "test_case_skips": {"skipped"},
        "test_case_fails_as_expected": {"skipped"},
        "test_case_passes": set(),
        "test_leaves_a_worker": set(),
    }, said
    assert "as unittest does" in said
