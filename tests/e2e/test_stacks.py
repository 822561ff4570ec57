# SPDX-License-Identifier: Apache-2.0
"""Every stack equals libunwind's: real programs under the recorder's verifying build, which asks libunwind at each
allocation. HEAPGAUGE_LONG=1 runs them at full size, more than twelve million stacks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
BENCH = Path(__file__).resolve().parents[3] / "shared" / "bench"
FIELDS = r"checked=(\d+) same=(\d+) cut=(\d+) stopped=(\d+) further=(\d+) wrong=(\d+)"


def verify(argv, heapgauge, build, scratch, env):
    """Runs argv under the verifying build; returns its counts and the log."""
    library = build / "libheapgauge-verify.so"
    assert library.exists(), f"{library} is not built: install libunwind-dev"
    log = scratch / "verify.log"
    env = env | {"HEAPGAUGE_RECORDER": str(library), "HEAPGAUGE_VERIFY_LOG": str(log)}
    command = [heapgauge, "record", "-q", "-o", scratch / "run.hg", "--", *argv]
    done = subprocess.run(command, env=env, cwd=scratch, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    text = log.read_text()
    names = ("checked", "same", "cut", "stopped", "further", "wrong")
    return dict(zip(names, map(int, re.search(FIELDS, text).groups()))), text


def sqlite(scratch):
    sys.path.insert(0, str(BENCH))
    import bench

    bench.write_rows(scratch / "rows.sql", 300_000 if LONG else 10_000)
    return ["/usr/bin/sqlite3", ":memory:", ".read rows.sql"], {}


def python(_scratch):
    return ["/usr/bin/python3", BENCH / "documents.py", "25" if LONG else "1"], {"PYTHONMALLOC": "malloc"}


def cc1plus(scratch):
    ask = lambda *argv: subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    source = BENCH / "templates.cpp"
    if not LONG:
        source = scratch / "small.cpp"
        source.write_text("#include <string>\n#include <vector>\nstd::vector<std::string> v;\n")
    return [ask("g++", "-print-prog-name=cc1plus"), "-quiet", "-fsyntax-only", "-O1", "-std=c++17", "-D_GNU_SOURCE",
            "-imultiarch", ask("gcc", "-print-multiarch"), source, "-o", "/dev/null"], {}


@pytest.mark.parametrize("program", [sqlite, python, cc1plus], ids=lambda p: p.__name__)
def test_every_stack_equals_libunwinds(program, heapgauge, build, scratch, clean_env):
    argv, env = program(scratch)
    counts, log = verify(argv, heapgauge, build, scratch, clean_env | env)
    print(counts)
    assert counts["checked"] > (500_000 if LONG else 30_000)
    assert counts["same"] == counts["checked"], log[:4000]
