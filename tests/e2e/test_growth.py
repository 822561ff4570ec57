# SPDX-License-Identifier: Apache-2.0
"""The view growth, on a program with one site of each course (tests/targets/t_growth.c)."""

import pytest

LEAKED_PER_SECOND = 1000 * 1000 / 5  # 1000 bytes every 5 ms


def by_function(result):
    """The rows by the innermost function of the program itself."""
    rows = {}
    for row in result["sites"]:
        for frame in row["stack"]:
            if frame["module"].endswith("t_growth"):
                rows[frame["function"]] = row
                break
    return rows


def test_each_course_gets_its_verdict(record, report_json, target):
    run = record([target("t_growth"), "3000"])
    assert run.returncode == 0
    result = report_json(run.path, "growth")
    sites = by_function(result)
    assert {name: row["verdict"] for name, row in sites.items()} == {
        "leak": "growing",
        "fill_cache": "bounded",
        "add_to_batch": "bounded",
        "begin_late": "not enough data",
    }
    leak = sites["leak"]
    # A loaded machine delays single steps, but the clock they go by is absolute.
    assert leak["bytes_per_second"] == pytest.approx(LEAKED_PER_SECOND, rel=0.15)
    assert leak["slowest_bytes_per_second"] <= leak["bytes_per_second"] <= leak["fastest_bytes_per_second"]
    assert leak["confidence_per_mille"] >= 990
    assert leak["frees"] == 0 and leak["live_bytes"] == 600 * 1000
    assert sites["begin_late"]["bytes_per_second"] is None
    assert abs(sites["add_to_batch"]["bytes_per_second"]) < LEAKED_PER_SECOND / 3
    assert result["sites"][0] == leak, "the growing one comes first"
    assert result["growing_sites"] == 1
    assert result["growing_bytes_per_second"] == leak["bytes_per_second"]


def test_a_short_run_gives_no_verdict(record, report_json, target):
    run = record([target("t_growth"), "500"])
    result = report_json(run.path, "growth")
    assert {row["verdict"] for row in result["sites"]} == {"not enough data"}
    assert result["growing_sites"] == 0
    assert result["heap_verdict"] == "not enough data"
