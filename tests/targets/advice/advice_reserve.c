/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "reserve". bad: a buffer grows step by step and moves each time. good: it has its size from the start,
 * grows where it is, or is made smaller. */
#include "target.h"

enum { ROUNDS = 50, STEPS = 40, STEP_BYTES = 4000 };

static unsigned long copied, grown;

static NOINLINE char *grow(char *p, size_t old, size_t n)
{
	uintptr_t before = (uintptr_t)p;
	char *q = realloc(p, n);
	KEEP(q);
	if (before && (uintptr_t)q != before)
		copied += old;
	grown += before && n > old;
	return q;
}

static NOINLINE void *block(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

/* Two buffers that grow in turn: neither can where it is. */
static void grow_in_turn(void)
{
	char *p[2] = { grow(NULL, 0, STEP_BYTES), grow(NULL, 0, STEP_BYTES) };

	for (size_t size = STEP_BYTES; size < (size_t)STEPS * STEP_BYTES; size += STEP_BYTES)
		for (int i = 0; i < 2; i++)
			p[i] = grow(p[i], size, size + STEP_BYTES);
	free(p[0]);
	free(p[1]);
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (bad)
			grow_in_turn();
		else
			free(grow(block((size_t)STEPS * STEP_BYTES), (size_t)STEPS * STEP_BYTES,
				  (size_t)STEPS * STEP_BYTES / 2));
	}
	if (bad)
		say("ADVICE rule=reserve site=grow saving_copied_bytes=%lu saving_calls=%lu\n",
		    copied, grown);
	return 0;
}
