/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "pool". bad: many blocks of 20 bytes. good: the same bytes as one array. */
#include <malloc.h>

#include "target.h"

enum { BLOCKS = 100000, BLOCK_BYTES = 20, HEADER_BYTES = 8 };

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

	if (bad)
		for (int i = 0; i < BLOCKS; i++)
			blocks[i] = take(BLOCK_BYTES);
	else
		blocks[0] = take((size_t)BLOCKS * BLOCK_BYTES);
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	if (bad)
		say("ADVICE rule=pool site=take saving_peak_bytes=%lu\n",
		    rounded + (unsigned long)BLOCKS * HEADER_BYTES);
	return 0;
}
