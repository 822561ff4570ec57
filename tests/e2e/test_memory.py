# SPDX-License-Identifier: Apache-2.0
"""Where the memory is: what was asked for, what was given, what the allocator holds, what the kernel holds. And the
limit of a control group, which also bounds what the recorder may take."""

import os
import pathlib
import subprocess

import pytest

from compiled import compile_c, wait_for

MIB = 1 << 20

# 40 MiB in small blocks, all touched; 30 MiB of them freed again behind a block that keeps the heap from shrinking;
# 8 MiB mapped by the program itself and touched; 6 MiB shared; 4 MiB of a thread's stack.
HOLDER = r"""
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char *blocks[40960];
static void *deep(void *unused)
{
	volatile char room[4 << 20];
	memset((char *)room, 1, sizeof room);
	sleep(1);
	return room[7] ? NULL : unused;
}
int main(void)
{
	pthread_t thread;
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	for (int i = 0; i < 40960; i++) memset(blocks[i] = malloc(1016), 1, 1016);
	for (int i = 0; i < 30720; i++) free(blocks[i]);
	memset(mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 8 << 20);
	memset(mmap(NULL, 6 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 6 << 20);
	pthread_create(&thread, NULL, deep, NULL);
	pthread_join(thread, NULL);
	return 0;
}
"""
CLASSES = ["heap_bytes", "anonymous_bytes", "stack_bytes", "file_bytes", "shared_bytes", "own_bytes"]


def test_each_class_holds_what_the_program_put_there(scratch, record, report_json):
    run = record([compile_c(scratch, "holder", HOLDER, "-pthread")])
    assert run.returncode == 0, run.stderr
    process = report_json(run.path)["processes"][0]
    memory = process["memory"]
    assert sum(memory[name] for name in CLASSES) == memory["rss_bytes"]
    assert memory["live_bytes"] >= 10240 * 1016
    assert memory["live_bytes"] < 10240 * 1016 + 100_000
    assert memory["heap_bytes"] >= 39 * MIB, "freed and not given back"
    assert 29 * MIB < memory["beyond_bytes"] < 32 * MIB
    assert memory["map_live_bytes"] >= 8 * MIB and memory["anonymous_bytes"] >= 8 * MIB
    assert 6 * MIB <= memory["shared_bytes"] < 7 * MIB
    assert 4 * MIB <= memory["stack_bytes"] < 5 * MIB
    assert memory["file_bytes"] > 100_000
    assert 100_000 < memory["own_bytes"] <= process["own_bytes"] + MIB
    assert memory["slack_bytes"] >= 0 and memory["at_ns"] < process["duration_ns"]


def test_the_summary_sets_them_side_by_side(scratch, heapgauge, record):
    run = record([compile_c(scratch, "holder", HOLDER, "-pthread")])
    text = subprocess.run([heapgauge, "report", run.path], capture_output=True, text=True, check=True).stdout
    line = next(line for line in text.splitlines() if "held beyond" in line)
    for word in ("live", "rounding", "stacks 4", "files", "shared 6", "recorder"):
        assert word in line


def test_a_process_that_is_gone_at_once_says_that_nothing_is_known(record, report_json, scratch):
    run = record([compile_c(scratch, "quick", "#include <stdlib.h>\nint main(void) { return !malloc(9); }\n")])
    process = report_json(run.path)["processes"][0]
    if process["duration_ns"] < 90e6:
        assert process["memory"] == {}
    else:
        assert process["memory"]["rss_bytes"] > 0


# ---- control groups ----


@pytest.fixture
def limited():
    """limited(bytes): a memory cgroup (v1) with that limit, for this test alone."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    folder = root / f"heapgauge-memory-{os.getpid()}"

    def make(limit):
        if not (root / "memory.limit_in_bytes").exists():
            pytest.skip("no memory cgroup (v1) is mounted here")
        try:
            folder.mkdir()
            (folder / "memory.limit_in_bytes").write_text(str(limit))
        except OSError as reason:
            pytest.skip(f"cannot make a memory cgroup here: {reason}")
        return folder

    yield make
    if folder.exists():
        wait_for(lambda: not (folder / "tasks").read_text(), "the cgroup to be empty")
        folder.rmdir()


# Many small blocks from many places: what makes the recorder ask for memory.
HUNGRY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 1200000; i++) { void *volatile p = malloc(40); (void)p; }
	puts("done");
	fflush(stdout);
	usleep(400000);
	return 0;
}
"""


def test_the_recorder_takes_at_most_a_tenth_of_the_room_that_a_limit_leaves(limited, scratch, record, report_json):
    hungry = compile_c(scratch, "hungry", HUNGRY)
    free = record([hungry])
    unbounded = report_json(free.path)["processes"][0]
    group = limited(128 * MIB)
    run = record(["sh", "-c", f"echo $$ > {group}/tasks; exec {hungry}"])
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    process = report_json(run.path)["processes"][-1]
    assert process["calls"] == unbounded["calls"] >= 1_200_000, "every call is counted all the same"
    assert unbounded["own_bytes"] > 14 * MIB, "else this shows nothing"
    assert process["own_bytes"] <= 128 * MIB // 10
    assert process["health"], "what it could not keep is counted"
    assert process["memory"]["cgroup_limit_bytes"] == 128 * MIB
    assert 0 < process["memory"]["cgroup_usage_bytes"] < 128 * MIB


def test_a_budget_that_was_asked_for_is_not_bounded(limited, scratch, record, report_json):
    hungry = compile_c(scratch, "hungry", HUNGRY)
    group = limited(256 * MIB)
    run = record(["sh", "-c", f"echo $$ > {group}/tasks; exec {hungry}"], "--budget", "100MiB")
    process = report_json(run.path)["processes"][-1]
    assert run.returncode == 0 and process["health"] == {}
