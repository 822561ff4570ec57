/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "kept". bad: one in ten requests fails, and its block is not freed. good: that waits for the end of the round. */
#include <time.h>

#include "target.h"

enum { ROUNDS = 10, REQUESTS = 1000, BLOCK_BYTES = 300 };

static void *failed[ROUNDS * REQUESTS / 10];

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	const struct timespec pause = { 0, 20000000 };
	int left = 0;

	for (int i = 0; i < ROUNDS; i++) {
		for (int j = 0; j < REQUESTS; j++) {
			void *p = take(BLOCK_BYTES);

			if (j % 10 == 0)
				failed[left++] = p;
			else
				free(p);
		}
		nanosleep(&pause, NULL);
		while (!bad && left > 0)
			free(failed[--left]);
	}
	if (bad)
		say("ADVICE rule=kept site=take saving_not_freed_bytes=%d\n", left * BLOCK_BYTES);
	return 0;
}
