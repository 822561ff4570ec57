# SPDX-License-Identifier: Apache-2.0
"""Random loading and unloading of libraries by several threads, with coroutines, exceptions and changes of the mode.

Uses the checking build of the recorder. Each library has a distinct block size, so a stack with the wrong library is detected.
HEAPGAUGE_RANDOM_SEED=N repeats the runs of one seed. HEAPGAUGE_LONG=1 takes about ten minutes."""

import collections
import os
import pathlib
import re
import subprocess

import pytest

import recorder
from compiled import WAIT_SECONDS

HERE = pathlib.Path(__file__).resolve().parent
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
FIRST = int(os.environ.get("HEAPGAUGE_RANDOM_SEED", 1))
SEEDS = 1 if "HEAPGAUGE_RANDOM_SEED" in os.environ else 240 if LONG else 2
LIBRARIES = 6
THREADS, OPERATIONS = 4, 4000 if LONG else 1000
MODES = {
    "exact": [],
    "sampled": ["--mode", "sample", "--interval", "4KiB"],
    "sampled less": ["--mode", "sample", "--interval", "64KiB"],
    "changing": ["--mode", "sample", "--interval", "4KiB"],
    "failing": ["--mode", "sample", "--interval", "4KiB"],
}


def compile_cxx(output, *flags):
    include = HERE.parents[2] / "include"
    words = ["g++", "-std=c++17", "-O1", "-g", "-w", "-pthread", f"-I{include}", *flags, HERE / "random_libraries.cc", "-o", output]
    subprocess.run(words, check=True, timeout=WAIT_SECONDS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Libraries 0 and 1, 2 and 3, 4 and 5 differ only in their names and frame sizes; 4 and 5 are large."""
    path = tmp_path_factory.mktemp("libraries")
    compile_cxx(path / "program", "-ldl")
    for i in range(LIBRARIES):
        large = ["-DFILL=1000000"] if i >= 4 else []
        compile_cxx(path / f"library{i}.so", "-shared", "-fPIC", f"-DNAME=library{i}", f"-DROOM={48 + 64 * (i % 2)}", *large)
    return path


def library_of(site):
    """The library whose inner function allocated; None: another function did. No stack leads through two libraries."""
    names = [frame["function"] or "" for frame in site["stack"]]
    found = {name.partition("_")[0] for name in names if re.fullmatch(r"library\d_(inner|outer)", name)}
    assert len(found) <= 1, names
    return found.pop() if names and names[0].endswith("_inner") else None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_blocks_count_for_the_library_that_allocated_them(folder, build, record, report_json, seed, mode):
    print(f"HEAPGAUGE_RANDOM_SEED={seed}")
    env = {"HEAPGAUGE_RECORDER": str(build / "libheapgauge-checked.so")}
    if mode == "failing":
        env["HEAPGAUGE_CHAOS"] = str(seed)
    words = [folder / "program", *map(str, (seed, THREADS, OPERATIONS, LIBRARIES, int(mode == "changing")))]
    done = record(words, *MODES[mode], env=env, cwd=folder)
    truth = {name: (int(blocks), int(size)) for name, blocks, size in re.findall(r"(library\d) (\d+) (\d+)", done.stdout)}
    assert len(truth) == LIBRARIES and recorder.FAILED_CHECK not in done.stderr, done.stderr
    if mode == "failing" and re.search("could not initialize|nothing was recorded", done.stderr):
        return
    assert done.returncode == 0, done.stderr
    sums = collections.Counter()
    for site in report_json(done.path, "sites", "--limit", "1000000")["sites"]:
        name = library_of(site)
        if name is not None:
            assert site["total_bytes"] == site["calls"] * truth[name][1], f"these are not blocks of {name}"
            sums[name] += site["calls"]
    if mode in ("exact", "sampled"):  # blocks are larger than the interval
        assert sums == {name: blocks for name, (blocks, _) in truth.items()}
    else:
        assert all(sums[name] <= 3 * blocks for name, (blocks, _) in truth.items())
