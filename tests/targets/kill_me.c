/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates for ever and says after each batch how many calls it has made so far; test_kill.py kills it at any moment. */
#include "target.h"

static NOINLINE void *take_until_killed(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void descend(int depth, unsigned long *calls, uint32_t *seed)
{
	if (depth > 0) {
		descend(depth - 1, calls, seed);
		__asm__ volatile("" ::: "memory");
		return;
	}
	void *p = take_until_killed(next_random(seed) % 3000);
	++*calls;
	if (next_random(seed) % 4)
		free(p);
}

int main(void)
{
	unsigned long calls = 0;
	uint32_t seed = 2463534242u;

	/* Bounded, in case nobody kills. */
	while (calls < 20000000) {
		for (int i = 0; i < 100; i++)
			descend((int)(next_random(&seed) % 60), &calls, &seed);
		say("ACKNOWLEDGED %lu\n", calls);
	}
	return 0;
}
