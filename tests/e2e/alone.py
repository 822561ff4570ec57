# SPDX-License-Identifier: Apache-2.0
"""Programs that record themselves: the recorder is preloaded, and there is no collector."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import recorder

SHARED_MEMORY = pathlib.Path("/dev/shm")


@contextlib.contextmanager
def folder_on_tmpfs():
    """A folder that profiles may be kept in."""
    done = subprocess.run(["stat", "-f", "-c", "%T", SHARED_MEMORY], capture_output=True, text=True, check=False)
    if done.stdout.strip() != "tmpfs":
        pytest.skip("there is no tmpfs in /dev/shm")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-test-", dir=SHARED_MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def preloaded(build, env, folder=None, **more):
    """The environment of a program that records itself."""
    own = {"LD_PRELOAD": str(recorder.library(build))}
    if folder:
        own["HEAPGAUGE_DIR"] = str(folder)
    return env | own | more


def file_of(folder, pid):
    """The profile of the process in the folder; None: there is none."""
    found = list(folder.glob(f"heapgauge.*.{pid}.*.live"))
    assert len(found) <= 1
    return found[0] if found else None


def files(folder):
    return sorted(os.listdir(folder))
