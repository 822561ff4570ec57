# SPDX-License-Identifier: Apache-2.0
"""Joint distributions: reallocs by size before and after, freed blocks by size and lifetime; against programs that count them themselves."""

import collections

import pytest

from compiled import compile_c

# Threads that realloc at random, each counting its own steps by powers of two; and blocks that live for a known time.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CLASSES = 40 };
static unsigned long steps[CLASSES][CLASSES], freed[CLASSES], kept[CLASSES];

static int class_of(size_t n) { return n ? 64 - __builtin_clzl(n) : 0; }
static unsigned next(unsigned *seed) { return *seed = *seed * 1103515245u + 12345u; }

static void *run(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	size_t size = 0;
	char *block = NULL;

	for (int i = 0; i < 20000; i++) {
		size_t wanted = 1 + (next(&seed) >> 8) % (1u << (next(&seed) >> 8) % 18);
		if (block)
			__atomic_fetch_add(&steps[class_of(size)][class_of(wanted)], 1, __ATOMIC_RELAXED);
		block = realloc(block, wanted);
		size = wanted;
	}
	free(block);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t all[100];
	static void *blocks[3][100];
	const size_t sizes[3] = { 24, 3000, 70000 };
	const struct timespec pause = { 0, 40000000 };

	for (long i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, run, (void *)(i + 1));
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	for (int s = 0; s < 3; s++)
		for (int i = 0; i < 100; i++)
			blocks[s][i] = malloc(sizes[s] + (size_t)i % 5);
	nanosleep(&pause, NULL);
	for (int s = 0; s < 3; s++)
		for (int i = 0; i < 100 - 10 * s; i++)
			free(blocks[s][i]);
	for (int o = 0; o < CLASSES; o++)
		for (int n = 0; n < CLASSES; n++)
			if (steps[o][n])
				printf("%lu %lu %lu\n", o ? 1ul << (o - 1) : 0, n ? 1ul << (n - 1) : 0, steps[o][n]);
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("pairs"), "pairs", PROGRAM, "-O1", "-pthread")


def flat(pairs):
    return {(int(first), int(second)): count for first, row in pairs.items() for second, count in row.items()}


@pytest.mark.parametrize("threads", [1, 8, 90])  # more than have counters of their own
def test_steps_are_those_that_the_program_counted(record, report_json, program, threads):
    run = record([program, str(threads)])
    truth = {(int(old), int(new)): int(count) for old, new, count in map(str.split, run.stdout.splitlines())}
    result = report_json(run.path, "reallocs")
    assert flat(result["steps"]) == truth
    assert sum(truth.values()) == sum(site["realloc"]["calls"] for site in result["sites"]) == threads * 19999


def test_lifetimes_by_size_are_counted_at_each_free(record, report_json, program):
    result = report_json(record([program]).path, "lifetimes")
    pairs = flat(result["lifetimes_by_size"])
    # 24 to 28, 3000 to 3004 and 70000 to 70004 bytes lived for 40 ms or more; the blocks of realloc mostly not for 1.
    long = collections.Counter()
    for (size, ms), count in pairs.items():
        if ms >= 32:
            long[size] += count
    assert [long[size] for size in (16, 2048, 65536)] == [100, 90, 80]
    by_time = collections.Counter()
    for (_, ms), count in pairs.items():
        by_time[ms] += count
    assert by_time == {bar["low_ms"]: bar["count"] for bar in result["lifetimes"]}


def test_a_part_of_the_sites_has_none(record, report_json, program):
    run = record([program])
    assert "steps" in report_json(run.path, "reallocs", "--focus", "run")
    assert "lifetimes_by_size" not in report_json(run.path, "lifetimes", "--focus", "^run$")
    assert "lifetimes_by_size" in report_json(run.path, "lifetimes", "--process", ".")


def test_in_a_forked_child_they_start_over(record, report_json, tmp_path_factory):
    source = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    void *volatile block = malloc(10);
    block = realloc(block, 100);
    if (fork() == 0) { block = realloc(malloc(1000), 5000); free(block); exit(0); }
    wait(NULL);
    free(block);
    return 0;
}
"""
    run = record([compile_c(tmp_path_factory.mktemp("forked"), "forked", source, "-O1")])
    shown = sorted(
        sorted(flat(report_json(run.path, "reallocs", "--process", str(process["pid"]))["steps"])) for process in report_json(run.path)["processes"]
    )
    assert shown == [[(8, 64)], [(512, 4096)]]
