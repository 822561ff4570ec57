# SPDX-License-Identifier: Apache-2.0
"""docs/howto/api.md: its whole programs are compiled and recorded, with the numbers that they should have, and its commands run."""

import pathlib
import re
import shlex
import subprocess

import pytest

from compiled import losses

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "howto" / "api.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
MAINS = {"c": "int main(", "cpp": "int main(", "rust": "fn main(", "fortran": "program solver"}
INCLUDE = f"-I{ROOT / 'include'}"


def build(language, folder):
    """The one whole program of the language in the page."""
    (source,) = [text for name, text in BLOCKS if name == language and MAINS[language] in text]
    file = folder / {"c": "a.c", "cpp": "a.cc", "rust": "a.rs", "fortran": "a.f90"}[language]
    file.write_text(source)
    if language == "rust":
        crate = ["rustc", "--edition=2021", "--crate-type=rlib", "--crate-name=heapgauge", "-O"]
        subprocess.run([*crate, ROOT / "bindings/rust/src/lib.rs"], cwd=folder, check=True)
    strict = ["-Wall", "-Wextra", "-Werror", "-g"]
    argv = {
        "c": ["gcc", "-std=c99", *strict, "-pthread", INCLUDE, file],
        "cpp": ["g++", "-std=c++17", *strict, "-pthread", INCLUDE, file],
        "rust": ["rustc", "--edition=2021", "-Dwarnings", "-g", "--extern", "heapgauge=libheapgauge.rlib", file],
        "fortran": ["gfortran", *strict, ROOT / "bindings/fortran/heapgauge.f90", file],
    }[language]
    subprocess.run([*argv, "-o", "program"], cwd=folder, check=True)
    assert subprocess.run([folder / "program"], check=True, capture_output=True).stdout == b""
    return folder / "program"


def test_the_program_in_c(scratch, record, report_json):
    run = record([build("c", scratch)])
    assert (run.returncode, run.stdout) == (0, "10 requests\n"), run.stderr
    rows = report_json(run.path, "functions", "--by", "label", "--cost", "total", "--focus", "worker")["labels"]
    assert {row["label"]: row["total_bytes"] for row in rows} == {"tenant=acme": 30000, "tenant=initech": 25000}
    moments = report_json(run.path, "snapshots")["snapshots"]
    assert [row["name"] for row in moments] == ["start", "loaded", "served"]
    assert moments[1]["live_bytes"] - moments[0]["live_bytes"] == 100000
    assert losses(report_json(run.path)["processes"][0]) == {}


def test_the_program_in_cxx(scratch, record, report_json):
    run = record([build("cpp", scratch)])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "functions", "--by", "tag", "--cost", "total", "--focus", "^take")["tags"]
    assert {row["tag"]: row["total_bytes"] for row in rows} == {"request/tenant=acme": 1000}


def test_the_program_in_rust(scratch, record, report_json):
    run = record([build("rust", scratch)])
    assert (run.returncode, run.stdout) == (0, "1000 bytes are live\n"), run.stderr
    assert [row["name"] for row in report_json(run.path, "snapshots")["snapshots"]] == ["done"]


def test_the_program_in_fortran(scratch, record, report_json):
    run = record([build("fortran", scratch)])
    assert (run.returncode, run.stdout) == (0, "800 bytes are live\n"), run.stderr
    assert [row["name"] for row in report_json(run.path, "snapshots")["snapshots"]] == ["loaded"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("howto")


def test_the_commands_about_the_program_run(folder, heapgauge, clean_env):
    section = PAGE.split("### A whole program", 1)[1].split("\n## ", 1)[0]
    commands = re.findall(r"^    (heapgauge .*)$", section, re.M)
    build("c", folder)
    assert len(commands) == 5
    for line in commands:
        done = subprocess.run([heapgauge, *shlex.split(line)[1:]], cwd=folder, env=clean_env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
