# SPDX-License-Identifier: Apache-2.0
"""Models of the recorder's lock-free structures (tests/models): they hold on weakly ordered CPUs, and fail where an order is weakened."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"


def test_models():
    cargo = shutil.which("cargo")
    if not cargo:
        pytest.fail("cargo is not installed")
    build = pathlib.Path(os.environ.get("HEAPGAUGE_BUILD", MODELS.parents[1] / "build/release"))
    argv = [cargo, "test", "--locked", "--manifest-path", MODELS / "Cargo.toml", "--target-dir", build / "models"]
    run = subprocess.run(argv, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    results = re.findall(r"^test (\w+)::(\w+)( - should panic)? \.\.\. ok$", run.stdout, re.MULTILINE)
    right = {module for module, _, weakened in results if not weakened}
    # A structure whose model was never seen to fail would prove nothing.
    assert right == {module for module, _, weakened in results if weakened} == {file.stem for file in (MODELS / "src").glob("*.rs")} - {"lib"}
