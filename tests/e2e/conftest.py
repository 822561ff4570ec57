# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the end-to-end tests: the built binaries, and the two commands that every test needs.

The build to test comes from the environment: HEAPGAUGE_BUILD=build/release pytest tests/e2e
With HEAPGAUGE_CHECKED=1 its checking recorder is what programs are recorded by.
"""

import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys

import pytest

import recorder
from compiled import WAIT_SECONDS
from paused import Paused
from reading import with_frames

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Some tests take fixtures of another room.
sys.path += [str(path) for path in (ROOT / "tests" / "e2e").iterdir() if path.is_dir()]


@dataclasses.dataclass
class Recording:
    """What a run of `heapgauge record` gave."""

    returncode: int
    stdout: str
    stderr: str
    path: pathlib.Path


# Files that take a minute or more: at the end of a run in parallel they would wait alone.
FIRST = (
    "test_page_saved", "test_package", "test_unrecorded", "test_page", "test_python_domains", "test_ci_templates", "test_triggers", "test_page_large",
    "test_adversary", "test_real_programs", "test_allocators", "test_page_walk", "test_import", "test_pytest_plugin",
)


def pytest_configure(config):
    if hasattr(config.option, "loadscopereorder"):  # begins with files of many tests, which need not take long
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    rank = {name: i for i, name in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(FIRST)))


@pytest.fixture(scope="session")
def build():
    """The build folder under test."""
    folder = pathlib.Path(os.environ.get("HEAPGAUGE_BUILD", ROOT / "build" / "release")).resolve()
    if not folder.is_dir():
        pytest.fail(f"no build in {folder}: set HEAPGAUGE_BUILD")
    return folder


@pytest.fixture(scope="session")
def heapgauge(build):
    """Path of the command."""
    path = build / "heapgauge"
    if not path.exists():
        pytest.fail(f"{path} is not built")
    return path


@pytest.fixture(scope="session")
def target(build):
    """target("leaks") is the path of the program built from tests/targets/leaks.c or .cc."""

    def find(name):
        path = build / "targets" / name
        if not path.exists() and platform.machine() != "x86_64":
            pytest.skip(f"{name} is for x86-64")  # those that are not, and do not compile, stop the build
        if not path.exists():
            pytest.fail(f"{path} is not built")
        return path

    return find


@pytest.fixture
def scratch(tmp_path):
    """An empty folder of this test alone."""
    return tmp_path


@pytest.fixture
def clean_env(build, tmp_path_factory):
    """The environment without what would change a run: our own variables, the loader's, and names kept by other runs."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}
    return own | {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))} | recorder.chosen(build)


@pytest.fixture
def record(heapgauge, scratch, clean_env):
    """record(argv, *options, env={...}): runs argv under `heapgauge record -q -o FILE options --`."""
    runs = 0

    def run(argv, *options, env=None, cwd=None, stdin=subprocess.DEVNULL, timeout=WAIT_SECONDS):
        nonlocal runs
        runs += 1
        path = scratch / f"run{runs}.hg"
        done = subprocess.run(
            [heapgauge, "record", "-q", "-o", path, *options, "--", *argv],
            env=clean_env | (env or {}),
            cwd=cwd or scratch,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=timeout,
        )
        assert recorder.FAILED_CHECK not in done.stderr, done.stderr
        return Recording(done.returncode, done.stdout, done.stderr, path)

    return run


@pytest.fixture
def report_json(heapgauge, clean_env):
    """report_json(path, view): what `heapgauge report` says, parsed.

    Of the losses the clock's is left out, unless clock=True: on a machine that is busy with other tests heapgauge may wait
    for a processor longer than it may without saying so.
    """

    def run(path, view="summary", *options, clock=False):
        done = subprocess.run(
            [heapgauge, "report", path, "--view", view, "--format", "json", *options],
            env=clean_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, f"report --view {view} failed: {done.stderr}"
        result = with_frames(json.loads(done.stdout))
        if not clock:
            for process in result.get("processes", []):
                process.get("health", {}).pop("clock_stopped_ms", None)
        return result

    return run


@pytest.fixture
def paused(heapgauge, clean_env, scratch):
    """Starts recorded programs that wait for the end of their input."""
    running = []

    def start(argv, *options):
        running.append(Paused(heapgauge, argv, clean_env, scratch, *options))
        return running[-1]

    yield start
    for one in running:
        one.collector.stdin.close() if not one.collector.stdin.closed else None
        one.collector.wait(WAIT_SECONDS)
