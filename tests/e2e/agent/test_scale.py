# SPDX-License-Identifier: Apache-2.0
"""The scripts behind docs/scale.md still run; their numbers take minutes, and are measured by hand."""

import pathlib
import re
import subprocess
import sys

import pytest

from agents import ROOT
from compiled import WAIT_SECONDS

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scale"
needs_root = pytest.mark.skipif(not ROOT, reason="needs root: a PID namespace")


def output_of(script, *options):
    done = subprocess.run([sys.executable, SCRIPTS / script, *options], capture_output=True, text=True, timeout=WAIT_SECONDS * 10)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_root
def test_the_agent_reads_and_pushes_a_small_fleet(build, scratch):
    figures = scratch / "fleet.json"
    said = output_of("fleet.py", "--build", build, "--processes", "5", "--stacks", "50", "--minutes", "0", "--interval", "1", "--json", figures)
    row = re.search(r"^\| 5 \|.*\| ([\d,]+) readings in ", said, re.M)
    assert row and int(row[1].replace(",", "")) >= 5, said
    output_of("fleet.py", "--plot", figures, scratch)
    assert (scratch / "agent-cpu.svg").read_text().startswith("<svg")


@needs_root
def test_profiles_of_real_programs_have_bytes(build):
    said = output_of("push_bytes.py", "--build", build, "--modes", "sample", "--interval", "2", "--profiles", "2")
    for program in ("clang", "postgres", "python3", "redis"):
        assert re.search(rf"^\| {program}\S* \| sample \| (yes|no) \| \d+ \| [\d.]+ MiB \| [1-9]", said, re.M), said


def test_generated_profiles_answer_questions():
    pytest.importorskip("chdb", reason="pip install chdb")
    said = output_of("query.py", "--profiles", "60000")
    assert len(re.findall(r"^\| .* \| [\d.]+ \| [1-9][\d,]* \| [\d.]+ MB \|$", said, re.M)) == 4, said
