# SPDX-License-Identifier: Apache-2.0
"""The view history against the same numbers asked one moment at a time."""

import subprocess

import pytest

STATEMENTS = """
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<60000) insert into t select i, hex(randomblob(16)) from n;
create index tb on t(b);
delete from t where a % 3 = 0;
"""


@pytest.fixture
def recording(record):
    run = record(["sqlite3", ":memory:", STATEMENTS])
    assert run.returncode == 0, run.stderr
    return run.path


def test_a_course_is_what_each_kept_moment_says(recording, report_json):
    history = report_json(recording, "history")
    kept = {row["at_ns"]: row["snapshot"] for row in report_json(recording, "timeline")["timeline"] if row["snapshot"]}
    moments = history["snapshot_at_ns"]
    assert kept and moments == sorted(moments)
    for at_ns, number in kept.items():
        column = moments.index(at_ns)
        at_once = report_json(recording, "sites", "--cost", "live", "--at", f"snap:{number}", "--kind", "heap")
        held = {site["site"]: site["live_bytes"] for site in at_once["sites"]}
        assert {row["site"]: row["history"][column] for row in history["sites"]} == held
        assert sum(held.values()) > 0


def test_peak_and_end_are_moments_of_a_course_too(recording, report_json):
    history = report_json(recording, "history")
    process = report_json(recording, "summary")["processes"][0]
    peak = history["snapshot_at_ns"].index(process["started_offset_ns"] + process["peak_at_ns"])
    assert sum(row["history"][peak] for row in history["sites"]) == process["peak_bytes"]
    assert sum(row["history"][-1] for row in history["sites"]) == process["not_freed_bytes"]
    assert all(row["max_snapshot_bytes"] == max(row["history"]) for row in history["sites"])


def test_the_whole_heap_at_each_moment_is_in_the_head_whatever_the_filters(recording, report_json):
    history = report_json(recording, "history")
    filtered = report_json(recording, "history", "--focus", "sqlite3", "--limit", "1")
    assert filtered["live_bytes"] == history["live_bytes"]
    assert history["live_bytes"] == [sum(row["history"][i] for row in history["sites"]) for i in range(len(history["snapshot_at_ns"]))]


def test_the_limit_keeps_the_heaviest(recording, report_json):
    sites = report_json(recording, "history", "--cost", "total", "--limit", "3")["sites"]
    all_sites = report_json(recording, "sites", "--cost", "total", "--kind", "heap")["sites"]
    assert [row["site"] for row in sites] == [row["site"] for row in all_sites[:3]]


def test_owners_are_the_sums_of_their_sites(recording, report_json):
    """At every moment, and ordered by the cost; the numbers of one moment are those of --by own."""
    owners = report_json(recording, "history", "--by", "own")
    sites = report_json(recording, "history")
    assert owners["snapshot_at_ns"] == sites["snapshot_at_ns"]
    for column in range(len(owners["snapshot_at_ns"])):
        assert sum(row["history"][column] for row in owners["owners"]) == sum(row["history"][column] for row in sites["sites"])
    grouped = report_json(recording, "functions", "--by", "own", "--cost", "peak")["owners"]
    assert sorted((row["own"], row["live_bytes"]) for row in owners["owners"] if row["live_bytes"]) == sorted((row["own"], row["live_bytes"]) for row in grouped)
    heaviest = report_json(recording, "history", "--by", "own", "--limit", "2")["owners"]
    assert [row["live_bytes"] for row in heaviest] == sorted((row["live_bytes"] for row in grouped), reverse=True)[:2]


def test_other_axes_are_refused(heapgauge, recording, clean_env):
    done = subprocess.run([heapgauge, "report", recording, "--view", "history", "--by", "module"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 1 and "--by own" in done.stderr
