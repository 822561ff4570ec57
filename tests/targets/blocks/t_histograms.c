/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the sizes and the lifetimes of blocks are told apart: few sizes exactly, many by class, lives by time. */
#include "target.h"
#include <time.h>

static struct truth few_truth = TRUTH(take_few_sizes);
static struct truth many_truth = TRUTH(take_many_sizes);
static struct truth held_truth = TRUTH(take_and_hold);

#define TAKE(name, truth)                                                                          \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = malloc(n);                                                               \
		KEEP(p);                                                                           \
		truth_take(&truth, n);                                                             \
		return p;                                                                          \
	}
TAKE(take_few_sizes, few_truth)
TAKE(take_many_sizes, many_truth)
TAKE(take_and_hold, held_truth)

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	while (nanosleep(&t, &t) != 0)
		;
}

int main(void)
{
	enum { FEW = 5, HELD = 100 };
	static void *held[HELD];
	static const size_t few[FEW] = { 24, 100, 1000, 4096, 70000 };

	for (int i = 0; i < 300; i++) {
		size_t n = few[i % FEW];
		free(take_few_sizes(n));
		truth_drop(&few_truth, n);
	}
	for (size_t n = 1; n <= 4000; n++) {
		free(take_many_sizes(n));
		truth_drop(&many_truth, n);
	}
	for (int i = 0; i < HELD; i++)
		held[i] = take_and_hold(200);
	sleep_ms(300);
	for (int i = 0; i < HELD; i++) {
		free(held[i]);
		truth_drop(&held_truth, 200);
	}
	truth_print(&few_truth,
		    "sizes:24=60 sizes:100=60 sizes:1000=60 sizes:4096=60 sizes:70000=60");
	truth_print(&many_truth, "");
	/* 300 ms: the clock is coarse and the machine may be busy, but 128 ms is far below and 4 s far above. */
	truth_print(&held_truth, "sizes:200=100 lifetimes:128-4096=100");
	return 0;
}
