# SPDX-License-Identifier: Apache-2.0
"""What a Python program says about its own memory: each thread is in its own scopes, and a program that is not recorded runs the same."""

import pathlib
import subprocess
import sys

import pytest

from bindings import every_python, with_package
from compiled import WAIT_SECONDS
from test_python_stacks import interpreters

PROGRAM = pathlib.Path(__file__).parent / "inside_program.py"
ROUNDS, THREADS = 50, 4  # as there


@pytest.fixture
def env(build, clean_env):
    return with_package(clean_env, build)


@pytest.mark.parametrize("version, path", every_python())
def test_without_the_recorder_nothing_happens(version, path, env):
    done = subprocess.run([path, PROGRAM], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "not recorded\n", "")


@pytest.mark.parametrize("version, path", interpreters().items())
def test_each_thread_is_in_its_own_scopes(version, path, env, record, report_json):
    run = record([path, PROGRAM], env=env)
    assert (run.returncode, run.stdout) == (0, "recorded\n"), run.stderr

    def found(size, cost="total", *options):
        """{(tag, labels): calls} of the blocks that hold `size` bytes; an object of bytes has a head of 33."""
        more = ["--min-size", str(size + 33), "--max-size", str(size + 33), *options]
        calls = {}
        for site in report_json(run.path, "sites", "--cost", cost, *more)["sites"]:
            key = site["tag"], tuple(site["labels"].items())
            calls[key] = calls.get(key, 0) + site["calls"]
        return calls

    for i in range(THREADS):
        assert found(100_001 + 10 * i) == {(f"thread{i}", ()): ROUNDS}
        assert found(100_002 + 10 * i) == {(f"thread{i}/inner", ()): ROUNDS}
    assert found(300_001) == {("decorated", ()): 1}
    assert found(400_001) == {(None, ()): 1}
    assert found(500_001) == {("tenant=acme", (("tenant", "acme"),)): 1}
    assert found(500_003) == {(None, ()): 1}
    assert found(500_005) == {("phase=load", (("phase", "load"),)): 1}
    assert found(600_001) == {("request", ()): 1}
    assert found(600_003) == {(None, ()): 1}
    assert found(700_003) == {(None, ()): 1}
    assert "700034" not in str(report_json(run.path, "sites", "--limit", "1000000", "--cost", "total"))
    assert found(800_001, "live", "--at", "snap:after", "--minus", "snap:before") == {(None, ()): 1}
    assert {row["name"] for row in report_json(run.path, "snapshots")["snapshots"]} >= {"before", "after"}


def test_what_would_mix_scopes_is_refused(env, scratch):
    program = """
import heapgauge, threading

def refused(function, kind):
    try:
        function()
    except kind as error:
        return str(error)

async def waits(): pass
def yields(): yield
assert "cannot span waits" in refused(lambda: heapgauge.scope("a")(waits), TypeError)
assert "cannot span yields" in refused(lambda: heapgauge.label("a", "b")(yields), TypeError)
assert "where is one of process, thread" in refused(lambda: heapgauge.stop("here"), ValueError)
assert "a mode is one of" in refused(lambda: heapgauge.mode("fast"), ValueError)
if heapgauge.is_recorded():
    with heapgauge.scope("a") as a:
        assert "entered already" in refused(a.__enter__, RuntimeError)
        said = []
        other = threading.Thread(target=lambda: said.append(refused(lambda: a.__exit__(), RuntimeError)))
        other.start(), other.join()
        assert "by another thread" in said[0]
"""
    for under in [], ["heapgauge", "record", "-q", "-o", scratch / "run.hg", "--"]:
        done = subprocess.run([*under, sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0, done.stderr
