# SPDX-License-Identifier: Apache-2.0
"""The benchmark's workloads know the truth about their own allocations; the recording must say the same, to the byte."""

import os
import pathlib
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS

BENCH = pathlib.Path(__file__).resolve().parents[4] / "shared" / "bench"
SYSTEM_MODULE = re.compile(r"/(libc|ld-linux|libpthread)[^/]*\.so[^/]*$")
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"


@pytest.fixture(scope="session")
def workload(tmp_path_factory):
    """workload("churn") is the path of the built program."""
    folder = tmp_path_factory.mktemp("bench")

    def build(name):
        program = folder / name
        if not program.exists():
            subprocess.run(
                ["gcc", "-O2", "-g", "-pthread", BENCH / f"{name}.c", "-o", program], check=True, timeout=WAIT_SECONDS
            )
        return program

    return build


def split_sites(sites, program, functions):
    """Heap sites of the workload's own code, and all others.

    Own: the innermost frame outside libc and the loader is in the workload's module, in one of its functions."""
    own, others = [], []
    for site in sites:
        outside = [f for f in site["stack"] if f["module"] and not SYSTEM_MODULE.search(f["module"])]
        mine = outside and pathlib.PurePath(outside[0]["module"]).name == program.name
        is_own = site["kind"] == "heap" and mine and outside[0]["function"] in functions
        (own if is_own else others).append(site)
    return own, others


CASES = [
    ("churn", [1, 5_000_000], {"leaf"}),
    ("churn", [4, 5_000_000 if LONG else 1_000_000], {"leaf"}),
    ("live", [2_000_000], {"leaf"}),
    ("deep", [2_000], {"take", "push", "new_node", "parse_object", "parse_array"}),
]


@pytest.mark.parametrize("name, arguments, functions", CASES, ids=["churn", "churn-threads", "live", "deep"])
def test_workload_is_recorded_to_the_byte(name, arguments, functions, workload, record, report_json):
    program = workload(name)
    run = record([program, *map(str, arguments)])
    assert run.returncode == 0, run.stderr
    line = re.search(r"^TRUTH .*$", run.stderr, re.M).group()
    truth = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)\b", line)}

    summary = report_json(run.path, "summary")["processes"][0]
    assert summary["mode"] == "exact"
    assert summary["health"] == {}
    sites, others = split_sites(report_json(run.path, "sites")["sites"], program, functions)
    threads = arguments[0] if name == "churn" and arguments[0] > 1 else 0
    # Beside the workload's own there is one block of libc's for each thread that it starts, and nothing of ours.
    assert sum(site["calls"] for site in others) == threads
    total = {column: sum(site[column] for site in sites) for column in sites[0] if type(sites[0][column]) is int}
    assert {
        "calls": total["calls"],
        "bytes": total["total_bytes"],
        "frees": total["frees"],
        "leaked": total["not_freed_bytes"],
        "leaked_blocks": total["not_freed_blocks"],
    } == {key: truth[key] for key in ("calls", "bytes", "frees", "leaked", "leaked_blocks")}

    bound = summary["peak_bound_bytes"]
    if threads:
        # The truth is the sum of the threads' own peaks, which need not come together.
        assert truth["peak"] / threads - bound <= total["peak_bytes"] <= truth["peak"] + bound
        assert summary["threads"] == 1 + threads
    else:
        assert bound == 0
        assert total["peak_bytes"] == summary["peak_bytes"] == truth["peak"]
        assert all(site["max_exact"] for site in sites)
    expected_stacks = {"churn": 64, "live": 1000}.get(name)
    if expected_stacks:
        assert len(sites) == expected_stacks


def test_nothing_of_ours_is_counted(workload, record, report_json):
    """A single-threaded workload that prints without stdio allocates nothing else, so neither may we."""
    run = record([workload("churn"), "1", "1000"])
    truth = int(re.search(r"calls=(\d+)", run.stderr).group(1))
    assert report_json(run.path, "summary")["processes"][0]["calls"] == truth
