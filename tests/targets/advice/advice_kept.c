/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "kept". bad: a little of it is never freed, all the time. good: as much, but the oldest goes first. */
#include <time.h>

#include "target.h"

enum { STEPS = 480, STEP_MS = 5, BLOCK_BYTES = 500, KEPT = 50 };

static void *blocks[STEPS];

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int i = 0; i < STEPS; i++) {
		blocks[i] = take(BLOCK_BYTES);
		if (!bad && i >= KEPT)
			free(blocks[i - KEPT]);
		next.tv_nsec += STEP_MS * 1000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	if (bad)
		say("ADVICE rule=kept site=take saving_not_freed_bytes=%d\n", STEPS * BLOCK_BYTES);
	return 0;
}
