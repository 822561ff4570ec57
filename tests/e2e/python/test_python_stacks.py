# SPDX-License-Identifier: Apache-2.0
"""Python functions on stacks: the same as sys._getframe gives, call by call.

With HEAPGAUGE_LONG=1 a million of each interpreter; those of pyenv too, if there are any.
"""

import collections
import json
import os
import pathlib
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).parent / "calling_program.py"
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
COUNT = 1_000_000 if LONG else 3_000
SIZE = 77777
WAIT_SECONDS = 3600 if LONG else 300


def interpreters():
    """The interpreters here of versions that are known, by version."""
    found = {}
    for path in [*pathlib.Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python3"), pathlib.Path("/usr/bin/python3")]:
        done = subprocess.run([path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True, text=True)
        if done.returncode == 0 and tuple(map(int, done.stdout.split(".")[:2])) in [(3, 11), (3, 12), (3, 13)]:
            found[done.stdout.strip()] = path
    return found


def python_part(site):
    """Its Python functions, innermost first."""
    return tuple((f["function"], f["file"], f["line"]) for f in site["stack"] if f["module"] == f["file"])


@pytest.mark.parametrize("version, path", interpreters().items())
def test_stacks_are_those_that_the_interpreter_shows(version, path, record, report_json):
    run = record([path, PROGRAM, "4711", str(COUNT)], timeout=WAIT_SECONDS)
    assert run.returncode == 0, run.stderr
    truth = collections.Counter({tuple(map(tuple, stack)): calls for stack, calls in json.loads(run.stdout)})
    seen = collections.Counter()
    for site in report_json(run.path, "sites", "--limit", "1000000", "--min-size", str(SIZE), "--max-size", str(SIZE))["sites"]:
        seen[python_part(site)] += site["calls"]
    assert truth.total() >= COUNT
    assert seen - truth == collections.Counter() and truth - seen == collections.Counter()
