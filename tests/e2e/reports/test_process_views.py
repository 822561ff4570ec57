# SPDX-License-Identifier: Apache-2.0
"""The views of whole processes on real trees: processes, memory, health."""

import re
import subprocess

from compiled import compile_c

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
        parts = ("live_bytes", "internal_fragmentation_bytes", "mmap_resident_bytes", "allocator_overhead_bytes", "inherited_bytes", "static_bytes", "unrecorded_bytes")
        assert sum(row[key] for key in parts) - row["untouched_bytes"] == row["private_bytes"]
        beside = ("stack_bytes", "file_bytes", "shared_bytes", "recorder_bytes", "rest_bytes")
        assert row["private_bytes"] + sum(row[key] for key in beside) == row["rss_bytes"]
        assert row["rss_bytes"] > 0 and row["file_bytes"] > 0 and row["recorder_bytes"] > 0


def test_nothing_lost_is_said(record, report_json, heapgauge, target):
    for _ in range(20):  # on a busy machine the clock may stand still, which is a loss
        run = record([target("t_growth"), "50"])
        if not report_json(run.path, clock=True)["processes"][0]["health"].get("clock_stopped_ms"):
            break
    result = report_json(run.path, "health")
    assert result["nothing_lost"] is True and result["recorder_bytes"] > 0
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


PEAKS = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile block;
int main(int argc, char **argv)
{
	if (argc > 1) {
		block = memset(malloc(100000000), 1, 100000000);
		free(block);
		return 0;
	}
	block = memset(malloc(50000000), 1, 50000000);
	for (int i = 0; i < 3; i++) {
		if (fork() == 0)
			execl("/proc/self/exe", argv[0], "child", (char *)0);
		wait(NULL);
	}
}
"""


def test_what_processes_hold_together_is_what_they_hold_at_one_moment(record, report_json, heapgauge, clean_env, scratch):
    """N4: the largest alone was said, and that it was exact."""
    run = record([compile_c(scratch, "peaks", PEAKS)])
    answer = report_json(run.path)
    assert answer["peak_bytes"] <= 150_010_000 <= answer["peak_bytes"] + answer["run"]["peak_bound_bytes"] + 20_000
    assert answer["peak_bytes"] >= 150_000_000
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert re.search(r"together +143\.1 MiB", text), text


def test_the_summary_is_of_what_was_started(record, heapgauge, clean_env, scratch):
    """C10: it was of the process with the largest heap, whoever that was; what is mapped and resident is in the table."""
    program = compile_c(scratch, "peaks", PEAKS)
    run = record([program])
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert re.search(r"peak +47\.7 MiB", text) and "the largest heap was that of pid" in text, text
    assert re.search(r"MAPPED +MAX RSS", text)
    became = record(["sh", "-c", f"true; exec {program} child"])
    text = subprocess.run([heapgauge, "report", became.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert re.search(r"peak +95\.4 MiB", text), text
