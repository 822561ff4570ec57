/* SPDX-License-Identifier: Apache-2.0 */
/* One site of each course that growth must tell apart. The arguments: how long in ms, and "frees" to free all of it at the end. */
#include <time.h>

#include "target.h"

enum { STEP_MS = 2, LRU = 100, SAW = 60, BLOCKS_MAX = 40000 };

static void *kept[BLOCKS_MAX], *lru[LRU], *saw[SAW], *churn[3];
static size_t kept_count, saw_count;

#define SITE(name, bytes)                                                                          \
	static NOINLINE void *name(void)                                                           \
	{                                                                                          \
		void *p = malloc(bytes);                                                           \
		KEEP(p);                                                                           \
		return p;                                                                          \
	}

SITE(leaks, 1000)	/* all the time */
SITE(leaks_slowly, 64)	/* every 20th step */
SITE(begins_late, 700)	/* from a quarter on: three quarters of the run */
SITE(stops_early, 900)	/* until two thirds */
SITE(stops_late, 900)	/* until five sixths */
SITE(four_blocks, 5000) /* one in each fifth of the run */
SITE(at_start, 100000)
SITE(replaces, 1000) /* the oldest, once it has its size */
SITE(rises_and_falls, 1000)
SITE(comes_and_goes, 500)

static void keep(void *p)
{
	if (kept_count < BLOCKS_MAX)
		kept[kept_count++] = p;
}

static void step(long i, long steps)
{
	keep(leaks());
	if (i % 20 == 0)
		keep(leaks_slowly());
	if (i >= steps / 4)
		keep(begins_late());
	if (i < steps * 2 / 3)
		keep(stops_early());
	if (i < steps * 5 / 6)
		keep(stops_late());
	if (i % (steps / 5) == steps / 6)
		keep(four_blocks());
	free(lru[i % LRU]);
	lru[i % LRU] = replaces();
	if (saw_count == SAW)
		while (saw_count > 0)
			free(saw[--saw_count]);
	saw[saw_count++] = rises_and_falls();
	free(churn[i % 3]);
	churn[i % 3] = comes_and_goes();
}

int main(int argc, char **argv)
{
	long steps = (argc > 1 ? strtol(argv[1], NULL, 10) : 100) / STEP_MS;
	struct timespec next;

	for (int i = 0; i < 20; i++)
		keep(at_start());
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long i = 0; i < steps; i++) {
		step(i, steps);
		next.tv_nsec += STEP_MS * 1000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	if (argc > 2 && strcmp(argv[2], "frees") == 0) {
		const struct timespec pause = { 0, 50000 };

		while (kept_count > 0) { /* which takes a while */
			free(kept[--kept_count]);
			if (kept_count % 2000 == 0)
				nanosleep(&pause, NULL);
		}
	}
	return 0;
}
