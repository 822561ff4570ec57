# SPDX-License-Identifier: Apache-2.0
"""The module `heapgauge` for Fortran: one file that is compiled with the program, and nothing that is linked."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODULE = ROOT / "bindings" / "fortran" / "heapgauge.f90"
SCOPES = pathlib.Path(__file__).parent / "bindings" / "scopes.f90"
CONTROL = SCOPES.with_name("control.f90")


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_scopes_of_a_fortran_program(level, scratch, record, report_json):
    if not shutil.which("gfortran"):
        pytest.fail("gfortran is not installed")
    program = scratch / "scopes"
    flags = ["-std=f2018", "-Wall", "-Wextra", "-Werror", "-g", level]
    subprocess.run(["gfortran", *flags, MODULE, SCOPES, "-o", program], cwd=scratch, check=True)
    alone = subprocess.run([program], capture_output=True, text=True, check=True)
    assert alone.stdout == "F\n"
    run = record([program])
    assert (run.returncode, run.stdout) == (0, "T\n"), run.stderr
    keys = ("visits", "self_calls", "self_total_bytes", "self_frees", "self_freed_bytes")
    tags = {row["tag"]: tuple(row[key] for key in keys) for row in report_json(run.path, "tags")["tags"] if row["tag"]}
    assert tags == {
        "solver": (3, 6, 3 * (10 * 10 * 8 + 10 * 8), 6, 3 * (10 * 10 * 8 + 10 * 8)),
        "solver/pivot": (3, 3, 3 * 10 * 4, 3, 3 * 10 * 4),
        "first": (1, 0, 0, 0, 0),
        "keeper": (1, 1, 8000, 1, 8000),
        "other": (1, 0, 0, 0, 0),
        "C": (1, 1, 77, 1, 77),
        "x" * 255: (1, 1, 5, 1, 5),
    }
    outside = report_json(run.path, "sites", "--tag", "^$")["sites"]
    assert 123457 in [site["total_bytes"] for site in outside]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_contexts_labels_control_moments_and_numbers(level, scratch, record, report_json):
    program = scratch / "control"
    flags = ["-std=f2018", "-Wall", "-Wextra", "-Werror", "-g", level]
    subprocess.run(["gfortran", *flags, MODULE, CONTROL, "-o", program], cwd=scratch, check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "alone\n"
    run = record([program])
    assert (run.returncode, run.stdout) == (0, "solver 1 200 3 700 1 600 3 0\n"), run.stderr
    tags = {row["tag"]: (row["self_calls"], row["self_total_bytes"]) for row in report_json(run.path, "tags")["tags"] if row["tag"]}
    assert tags == {"solver": (1, 200), "solver/phase=load": (2, 500), "control": (2, 5000)}
    snapshots = report_json(run.path, "snapshots")["snapshots"]
    assert [row["name"] for row in snapshots] == ["one", "between", "two"]
    assert snapshots[2]["live_bytes"] - snapshots[0]["live_bytes"] == 5000 - 100
