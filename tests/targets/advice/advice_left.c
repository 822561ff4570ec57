/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "kept", in a run too short for a trend. bad: four fifths of the peak are lists that nobody frees. good: they
 * are freed, each before the next. */
#include "target.h"

enum { LISTS = 40, BLOCKS = 100, BLOCK_BYTES = 200, OTHER_BYTES = 200000 };

static void *blocks[BLOCKS];

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void *take_other(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;

	for (int i = 0; i < LISTS; i++) {
		for (int j = 0; j < BLOCKS; j++)
			blocks[j] = take(BLOCK_BYTES);
		for (int j = 0; !bad && j < BLOCKS; j++)
			free(blocks[j]);
	}
	free(take_other(OTHER_BYTES));
	if (bad)
		say("ADVICE rule=kept site=take saving_not_freed_bytes=%d\n",
		    LISTS * BLOCKS * BLOCK_BYTES);
	return 0;
}
