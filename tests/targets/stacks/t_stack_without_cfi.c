/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a walk which meets a frame without unwind information ends there and is counted: no guess, nothing lost. */
#include "adversary_asm.h"
#include "target.h"

enum { ROUNDS = 100 };

static NOINLINE void take_below(long n)
{
	void *p = malloc((size_t)n);
	KEEP(p);
	free(p);
	__asm__ volatile("" ::: "memory");
}

static NOINLINE void enter_below(long n)
{
	take_below(n);
	__asm__ volatile("" ::: "memory");
}

static NOINLINE void above(long n)
{
	asm_call_no_cfi(enter_below, n);
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	for (long i = 0; i < ROUNDS; i++)
		above(10 + i);
	for (long i = 0; i < ROUNDS; i++)
		enter_below(10 + i);
	say("EXPECT stack=take_below<enter_below<asm_call_no_cfi kind=heap calls=%d frees=%d\n",
	    ROUNDS, ROUNDS);
	say("EXPECT stack=take_below<enter_below<main kind=heap calls=%d frees=%d\n", ROUNDS,
	    ROUNDS);
	say("HEALTH stacks_stopped\n");
	return 0;
}
