/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "rounding". bad: a size that the allocator rounds up by a fifth. good: one that it has. */
#include <malloc.h>

#include "target.h"

enum { BLOCKS = 80000, BAD_BYTES = 73, GOOD_BYTES = 72 };

static void *blocks[BLOCKS];
static unsigned long rounded;

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	rounded += malloc_usable_size(p) - n;
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = take(bad ? BAD_BYTES : GOOD_BYTES);
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	if (bad)
		say("ADVICE rule=rounding site=take saving_peak_bytes=%lu\n", rounded);
	return 0;
}
