/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that recursion deeper than the limit keeps the frames at the leaf, counts that it cut, and loses no number. */
#include "target.h"

static struct truth truth = TRUTH(take_deep);

static NOINLINE void *take_deep(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static NOINLINE void descend(int depth)
{
	volatile char frame[40];

	frame[0] = 1;
	if (depth > 0)
		descend(depth - 1);
	if (depth % 500 == 0) {
		free(take_deep(100));
		truth_drop(&truth, 100);
	}
	frame[1] = frame[0];
}

int main(void)
{
	for (int i = 0; i < 20; i++)
		descend(6000);
	truth_print(&truth, "");
	say("HEALTH stacks_cut\n");
	return 0;
}
