# SPDX-License-Identifier: Apache-2.0
"""Where the memory is: what was asked for, what was given, what the allocator holds, what the kernel holds. And the
limit of a control group, which also bounds what the recorder may take."""

import os
import pathlib
import shutil
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


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_the_thread_that_keeps_the_clock_reads_nothing_that_takes_long(scratch, heapgauge, clean_env):
    """For smaps the kernel walks all pages of the program: 20 ms for a gigabyte, in which no clock would move."""
    program = compile_c(scratch, "waits", "#include <unistd.h>\nint main(void) { return usleep(500000); }\n")
    log = scratch / "calls"
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=openat,ppoll", "-o", log, heapgauge, "record", "-q", "-o", scratch / "a.hg", program],
        env=clean_env, check=True, timeout=60,
    )  # fmt: skip
    calls = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    loop = {thread for thread, call in calls if call.startswith("ppoll(")}
    readers = {thread for thread, call in calls if '/smaps"' in call}
    assert len(loop) == 1 and readers and not readers & loop


# Touches argv[1] MiB, then tells by how much the clock that the collector keeps falls behind, at worst, in microseconds,
# and how long reading smaps takes.
WATCHER = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}
int main(int argc, char **argv)
{
	size_t bytes = (size_t)atoi(argv[1]) << 20;
	char line[4096], *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile uint32_t *clock = NULL;
	int64_t start, least = INT64_MAX, worst = 0;
	madvise(block, bytes, MADV_NOHUGEPAGE);
	memset(block, 1, bytes);
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "heapgauge-control")) clock = (void *)(strtoull(line, NULL, 16) + 8);
	for (start = now(); now() - start < 5000000;) {
		int64_t lag = now() - *clock * 1000ll;
		if (lag < least) least = lag;
		if (lag - least > worst) worst = lag - least;
	}
	start = now();
	int fd = open("/proc/self/smaps", O_RDONLY);
	while (read(fd, line, sizeof line) > 0) { }
	printf("%lld %lld\n", (long long)worst, (long long)(now() - start));
	return 0;
}
"""


@pytest.mark.skipif(os.environ.get("HEAPGAUGE_LONG") != "1", reason="long: set HEAPGAUGE_LONG=1; wants 2 GiB and an idle machine")
def test_the_clock_of_a_large_process_does_not_stand_still(scratch, record):
    program = compile_c(scratch, "watcher", WATCHER)
    runs = [tuple(map(int, record([program, "2048"]).stdout.split())) for _ in range(3)]
    print(runs)
    assert min(worst for worst, _ in runs) < 20_000, runs


def test_the_view_sets_them_one_below_the_other(scratch, heapgauge, record):
    run = record([compile_c(scratch, "holder", HOLDER, "-pthread")])
    ask = [heapgauge, "report", run.path]
    text = subprocess.run([*ask, "--view", "memory"], capture_output=True, text=True, check=True).stdout
    lines = {line.split("  ")[1].strip(" +-="): line for line in text.splitlines() if line.startswith("  ")}
    assert list(lines)[:2] == ["requested", "rounding"]
    assert {"held", "private", "stacks", "files", "shared", "recorder", "RSS"} <= lines.keys()
    assert " 4" in lines["stacks"] and " 6" in lines["shared"]
    summary = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    assert "held beyond" in next(line for line in summary.splitlines() if line.startswith("  RSS "))


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


# As many stacks as there are numbers: each bit of a number is one of two calls.
STACKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *take(int bits, unsigned number);
static volatile int one = 1;
__attribute__((noinline)) static void *left(int bits, unsigned number)
{
	void *p = take(bits, number);
	return one ? p : NULL;
}
__attribute__((noinline)) static void *right(int bits, unsigned number)
{
	void *p = take(bits, number);
	return one ? p : NULL;
}
__attribute__((noinline)) static void *take(int bits, unsigned number)
{
	void *p = bits == 0 ? malloc(16) : number & 1 ? left(bits - 1, number >> 1) : right(bits - 1, number >> 1);
	return one ? p : NULL;
}
int main(int argc, char **argv)
{
	unsigned count = atoi(argv[1]);
	for (unsigned i = 0; i < count; i++) free(take(20, i));
	return 0;
}
"""


def test_hundreds_of_thousands_of_stacks_fit_the_default_budget(scratch, record, report_json):
    """A small heap, so that its share alone would never do; what is taken grows with the need and no further."""
    program = compile_c(scratch, "stacks", STACKS)
    few, many = (report_json(record([program, str(n)]).path)["processes"][0] for n in (30_000, 300_000))
    assert many["peak_bytes"] < 100_000
    assert (few["health"], many["health"]) == ({}, {})
    assert 300_000 <= many["stacks"] < 300_100
    assert 30_000 <= few["stacks"] < 30_100
    assert few["own_bytes"] < 40 * MIB
    assert 64 * MIB < many["own_bytes"] < 320 * MIB
