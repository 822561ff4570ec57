# SPDX-License-Identifier: Apache-2.0
"""docs/howto/ci.md: every command of ours in it is run, on a small CMake project with the test it speaks of. The runners of
GitHub and GitLab themselves are not here; their files are read as YAML and the steps are run by a shell, as they would."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "howto" / "ci.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
SOURCE = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *grow(size_t bytes) { char *block = malloc(bytes); memset(block, 1, bytes); return block; }
int main(void) { char *block = grow(BYTES); int sum = block[0]; free(block); return sum == 1 ? 0 : 1; }
"""
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(small LANGUAGES C)
enable_testing()
foreach(name parse_test parse_bench)
  add_executable(${name} test.c)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
"""


def blocks(language, first=""):
    return [text for name, text in BLOCKS if name == language and text.startswith(first)]


@pytest.fixture
def project(scratch, heapgauge, clean_env):
    (scratch / "CMakeLists.txt").write_text(PROJECT)
    (scratch / "budgets.ini").write_text(blocks("ini")[0].replace("max-growth = 1KiB/s\n", ""))
    env = clean_env | {"PATH": f"{heapgauge.parent}:{os.environ['PATH']}"}

    def prepare(size, before=""):
        (scratch / "test.c").write_text(before + SOURCE.replace("BYTES", str(size)))
        subprocess.run("cmake -B build -DCMAKE_BUILD_TYPE=Debug && cmake --build build", shell=True, cwd=scratch, check=True, capture_output=True)

    def run(line):
        return subprocess.run(line, shell=True, cwd=scratch, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)

    return prepare, run


def steps_of(text):
    """The lines that a runner would hand to a shell, in order."""
    return [m.strip() for m in re.findall(r"(?:run: |^    - )(.*)$", text, re.M) if "uses:" not in m]


def test_the_page_has_what_is_tested():
    assert len(blocks("ini")) == 1 and len(blocks("sh")) == 3
    assert len(blocks("yaml", "# github")) == len(blocks("yaml", "# gitlab")) == 1
    assert "max-growth = 1KiB/s" in blocks("ini")[0], "taken out below: a test of a millisecond cannot tell growth"


def test_one_step_keeps_and_breaks(project):
    prepare, run = project
    prepare(1000)
    kept = run(blocks("sh")[0])
    assert kept.returncode == 0, kept.stderr
    prepare(70 << 20)
    broken = run(blocks("sh")[0])
    assert broken.returncode == 1, broken.stderr
    assert re.search(r"parse_test  peak 70\.0 MiB > 64\.0 MiB, 70\.0 MiB of it from grow \(test\.c:4\)", broken.stderr)


def test_against_the_last_good_run(project, scratch, clean_env):
    prepare, run = project
    prepare(1 << 20)
    for line in blocks("sh")[1].strip().splitlines():
        assert run(line).returncode == 0, line
    # T5: on a fresh runner what the recording is about is gone, and the code has moved.
    shutil.rmtree(scratch / "build")
    shutil.rmtree(clean_env["XDG_CACHE_HOME"], ignore_errors=True)
    prepare(1 << 20, before="\nint moved(int a) { return a * 3; }\n")
    record, check, diff = blocks("sh")[2].strip().splitlines()
    assert run(record).returncode == 0
    assert "grow" not in run(diff).stdout, "its stack was found again"
    same = run(check)
    assert same.returncode == 0, same.stdout + same.stderr
    prepare(3 << 20)
    assert run(record).returncode == 0
    worse = run(check)
    assert worse.returncode == 1 and "parse_test  peak 3.0 MiB > 1.0 MiB" in worse.stdout, worse.stdout
    assert (scratch / "heap.xml").exists()
    assert "+4.0 MiB" in run(diff).stdout, "two tests with two MiB more"


@pytest.mark.parametrize("which", ["# github", "# gitlab"])
def test_the_steps_of_a_runner(project, which):
    prepare, run = project
    prepare(1000)
    steps = steps_of(blocks("yaml", which)[0])
    assert len(steps) == 3, steps
    for step in steps:
        done = run(step)
        assert done.returncode == 0, (step, done.stdout, done.stderr)
    assert which != "# github" or done.stdout.startswith("::notice")
    prepare(70 << 20)
    assert [run(step).returncode for step in steps][-1] == 1


@pytest.mark.parametrize("which", ["# github", "# gitlab"])
def test_the_runner_files_are_yaml(which):
    yaml = pytest.importorskip("yaml")
    loaded = yaml.safe_load(blocks("yaml", which)[0])
    assert "memory" in loaded.get("jobs", loaded)
