/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "reserve": blocks that grow where they are, so that nothing is copied. bad: more than half of all calls are such
 * steps. good: the same room at once. */
#include "target.h"

enum { BUFFERS = 100, STEPS = 40, STEP_BYTES = 16, OTHERS = 28 };

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

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;

	for (int i = 0; i < BUFFERS; i++) {
		size_t size = bad ? STEP_BYTES : (size_t)STEPS * STEP_BYTES;
		char *p = grow(NULL, 0, size);

		for (; size < (size_t)STEPS * STEP_BYTES; size += STEP_BYTES)
			p = grow(p, size, size + STEP_BYTES);
		for (int j = 0; j < OTHERS; j++)
			free(take(100));
		free(p);
	}
	if (bad)
		say("ADVICE rule=reserve site=grow saving_copied_bytes=%lu saving_calls=%lu\n",
		    copied, grown);
	return 0;
}
