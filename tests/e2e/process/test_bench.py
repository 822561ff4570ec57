# SPDX-License-Identifier: Apache-2.0
"""The benchmark runs from a clone as docs/performance.md says; what it measures is for an idle machine, by hand."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("workload", ["deep", "shell"])
def test_one_command(build, clean_env, scratch, workload):
    figures = scratch / "figures.json"
    subprocess.run(
        [sys.executable, ROOT / "bench" / "bench.py", "--build", build, "--base", build, "--workload", workload, "--reps", "1",
         "--work", scratch / "work", "--json", figures],
        env=clean_env, check=True, timeout=600,
    )
    rows = {row["tool"]: row for row in json.loads(figures.read_text())}
    assert {"base", "heapgauge"} <= set(rows)
    for name in ("base", "heapgauge"):
        assert rows[name]["runs"] == 1 and rows[name]["failed_runs"] == 0 and rows[name]["output_mb"] > 0


def test_growth(build, clean_env, scratch):
    found = scratch / "growth.json"
    subprocess.run(
        [sys.executable, ROOT / "bench" / "growth.py", "--build", build, "--most", "10", "--reps", "1", "--json", found,
         "--axis", "processes", "--axis", "seconds", "--plots", scratch],
        env=clean_env, check=True, timeout=600,
    )
    growth = json.loads(found.read_text())
    assert [row["count"] for row in growth["processes"]["rows"]] == [1, 10]
    assert [row["count"] for row in growth["seconds"]["rows"]] == [1, 10]
    assert all(row["file"] > 0 for axis in growth.values() for row in axis["rows"])
    assert (scratch / "growth-processes.svg").read_text().startswith("<svg")
