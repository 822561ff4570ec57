# SPDX-License-Identifier: Apache-2.0
"""Python functions on stacks: the same as sys._getframe gives, call by call.

With HEAPGAUGE_LONG=1 a million of each interpreter; those of pyenv too, if there are any, and those of HEAPGAUGE_PYTHONS=PATH:PATH.
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
    named = [pathlib.Path(path) for path in os.environ.get("HEAPGAUGE_PYTHONS", "").split(":") if path]
    for path in [*named, *pathlib.Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python3"), pathlib.Path("/usr/bin/python3")]:
        done = subprocess.run([path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True, text=True)
        if done.returncode == 0 and tuple(map(int, done.stdout.split(".")[:2])) in [(3, minor) for minor in range(11, 16)]:
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


DEEP = """
import sys
sys.setrecursionlimit(5000)
def leaf(): return bytearray(77777)
def down(n): return leaf() if n == 0 else down(n - 1)
kept = down(2000)
"""


@pytest.mark.parametrize("version, path", interpreters().items())
def test_a_deep_recursion_keeps_its_innermost_functions(version, path, record, report_json, scratch):
    (scratch / "deep.py").write_text(DEEP)
    run = record([path, scratch / "deep.py"], "--depth", "300")
    assert run.returncode == 0, run.stderr
    (site,) = report_json(run.path, "sites", "--min-size", "77777", "--max-size", "78000")["sites"]
    functions = [frame["function"] for frame in site["stack"]]
    first = functions.index("leaf")
    assert set(functions[first + 1 : -1]) == {"down"} and functions[-1] == "[outer frames truncated]"
    assert len(functions) > 250
    assert report_json(run.path, "summary")["processes"][0]["health"]["stacks_cut"] >= 1


REPLACED = """
import random, types
def model(): return bytearray(77777)
dice, kept = random.Random(1), [None] * 500
for i in range(20000):
    name = f"made_{i % 97}"
    code = model.__code__.replace(co_name=name, co_qualname=name)
    kept[dice.randrange(len(kept))] = code
    types.FunctionType(code, globals())()
"""


@pytest.mark.parametrize("version, path", interpreters().items())
def test_functions_that_differ_by_name_alone(version, path, record, report_json, scratch):
    """Their code objects lie beside each other or take turns at an address, and their versions follow each other: none may be taken for another."""
    (scratch / "replaced.py").write_text(REPLACED)
    run = record([path, scratch / "replaced.py"])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "functions", "--cost", "calls", "--limit", "1000", "--min-size", "77777", "--max-size", "78000")["functions"]
    calls = {row["function"]: row["calls"] for row in rows if row["function"].startswith("made_")}
    assert calls == {f"made_{i}": len(range(i, 20000, 97)) for i in range(97)}


SUBCLASSED = """
import types
class Text(str): pass
def model(): return bytearray(77777)
for i in range(300):
    long = Text("n" * (i * 997))
    types.FunctionType(model.__code__.replace(co_name=long, co_qualname=long), globals())()
    exec(compile("model()", Text("/" + "p" * (i * 997)), "exec"))
"""


@pytest.mark.parametrize("version, path", interpreters().items())
def test_names_that_are_no_plain_strings(version, path, record, report_json, scratch):
    """An object of a subclass of str has its characters elsewhere: nothing is read behind it."""
    (scratch / "subclassed.py").write_text(SUBCLASSED)
    run = record([path, scratch / "subclassed.py"])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "sites", "--limit", "10000", "--min-size", "77777", "--max-size", "78000")["sites"]
    assert sum(row["calls"] for row in rows) == 600


NAMED = """
class Cache:
    def cold(self):  # as gcc calls a part of a function
        return [bytearray(77777) for _ in range(2)]
class Outer:
    class operator:
        def fill(self):
            return (lambda: bytearray(77777))()
def caf\u00e9_\u6f22_\U00020000():  # of two, three and four bytes
    return bytearray(77777)
kept = [Cache().cold(), Outer.operator().fill(), caf\u00e9_\u6f22_\U00020000()]
"""


def test_names_are_those_that_the_program_gives(record, report_json, scratch, heapgauge, clean_env):
    """A Python name is no mangled one: nothing of it is shortened as a template, a clone or an operator."""
    (scratch / "named.py").write_text(NAMED, encoding="utf-8")
    foreign = "caf\u00e9_\u6f22_\U00020000"
    run = record([next(iter(interpreters().values())), scratch / "named.py"])
    assert run.returncode == 0, run.stderr
    sizes = ["--min-size", "77777", "--max-size", "78000"]
    names = {f["function"] for site in report_json(run.path, "sites", *sizes)["sites"] for f in site["stack"] if f["module"] == f["file"]}
    assert {"Cache.cold", "Outer.operator.fill", "Outer.operator.fill.<locals>.<lambda>", "<module>", foreign} <= names
    assert names - {"Cache.cold.<locals>.<listcomp>"} <= {"Cache.cold", "Outer.operator.fill", "Outer.operator.fill.<locals>.<lambda>", "<module>", foreign}
    text = subprocess.run([heapgauge, "report", run.path, "--view", "sites", *sizes], env=clean_env, capture_output=True, text=True).stdout
    assert "Outer.operator.fill.<locals>.<lambda>  named.py:8" in text, text
