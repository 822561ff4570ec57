/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "burst". bad: now and then many short-lived blocks at once. good: as many that stay. */
#include <time.h>

#include "target.h"

enum { ROUNDS = 5, BLOCKS = 200, BLOCK_BYTES = 10000, BASE_BYTES = 300000 };

static void *blocks[ROUNDS * BLOCKS], *base;

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void *take_base(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	const struct timespec pause = {
		0, 400000000
	}; /* much longer than a burst, also on a busy machine */

	base = take_base(BASE_BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		void **round = &blocks[i * BLOCKS];

		for (int j = 0; j < BLOCKS; j++)
			round[j] = take(BLOCK_BYTES);
		for (int j = 0; bad && j < BLOCKS; j++)
			free(round[j]);
		nanosleep(&pause, NULL);
	}
	for (int i = 0; !bad && i < ROUNDS * BLOCKS; i++)
		free(blocks[i]);
	if (bad)
		say("ADVICE rule=burst site=take saving_peak_bytes=%d\n", BLOCKS * BLOCK_BYTES);
	return 0;
}
