# SPDX-License-Identifier: Apache-2.0
"""The views of whole processes on real trees: processes, memory, health."""

import subprocess

TREE = """
for i in 1 2 3 4 5 6 7 8 9 10; do
    bash -c '/bin/true; exec /bin/echo inner' &
done
wait
"""


def test_the_tree_is_who_started_whom(record, report_json):
    run = record(["bash", "-c", TREE])
    rows = report_json(run.path, "processes")["processes"]
    assert rows[0]["depth"] == 0 and rows[0]["command"].startswith("bash")
    path = []
    for row in rows:
        del path[row["depth"] :]
        if path:
            parent = path[-1]
            became = parent["pid"] == row["pid"] and parent["end"] == "exec"
            assert became or parent["pid"] == row["ppid"]
            assert parent["started_offset_ns"] <= row["started_offset_ns"]
        path.append(row)
    echoes = [row for row in rows if row["command"] == "/bin/echo inner"]
    assert len(echoes) == 10 and all(row["depth"] >= 2 for row in echoes)
    summary = report_json(run.path)["processes"]
    assert sorted(row["calls"] for row in rows) == sorted(row["calls"] for row in summary)


def test_memory_adds_up_at_every_kept_moment(record, report_json, target):
    run = record([target("t_growth"), "600"])
    rows = report_json(run.path, "memory")["memory"]
    assert len(rows) >= 4
    for row in rows:
        assert row["private_bytes"] == row["heap_bytes"] + row["anonymous_bytes"]
        parts = row["live_bytes"] + row["slack_bytes"] + row["mapped_bytes"] + row["beyond_bytes"]
        assert parts - row["untouched_bytes"] == row["private_bytes"]
        beside = ("stack_bytes", "file_bytes", "shared_bytes", "own_bytes", "rest_bytes")
        assert row["private_bytes"] + sum(row[key] for key in beside) == row["rss_bytes"]
        assert row["rss_bytes"] > 0 and row["file_bytes"] > 0 and row["own_bytes"] > 0


def test_nothing_lost_is_said(record, report_json, heapgauge, target):
    run = record([target("t_growth"), "50"])
    result = report_json(run.path, "health")
    assert result["nothing_lost"] is True and result["own_bytes"] > 0
    text = subprocess.run(
        [heapgauge, "report", run.path, "--view", "health"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert "nothing lost" in text.splitlines()[0]


def test_what_is_lost_is_said(record, report_json, target):
    run = record([target("t_stacks_cut")])
    result = report_json(run.path, "health")
    assert result["nothing_lost"] is False
    counted = {row["name"]: row for row in result["health"]}
    assert counted["stacks_cut"]["count"] > 0 and "deeper" in counted["stacks_cut"]["meaning"]
