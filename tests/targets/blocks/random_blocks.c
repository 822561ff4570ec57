/* SPDX-License-Identifier: Apache-2.0 */
/* Random mallocs, reallocs and frees of up to 4,000 blocks, from four sites. The argument: how many. Prints the most bytes and blocks
 * that were live at one time. */
#include "target.h"

enum { BLOCKS_MAX = 4000 };

static struct {
	void *at;
	size_t bytes;
} blocks[BLOCKS_MAX];
static size_t count, live_bytes, most_bytes, most_blocks;

static NOINLINE void *small(size_t bytes)
{
	void *p = malloc(bytes);

	KEEP(p);
	return p;
}

static NOINLINE void *zeroed(size_t bytes)
{
	void *p = calloc(bytes, 1);

	KEEP(p);
	return p;
}

static NOINLINE void *resized(void *old, size_t bytes)
{
	void *p = realloc(old, bytes);

	KEEP(p);
	return p;
}

static void put(size_t i, void *at, size_t bytes)
{
	blocks[i].at = at;
	blocks[i].bytes = bytes;
	live_bytes += bytes;
	most_bytes = live_bytes > most_bytes ? live_bytes : most_bytes;
	most_blocks = count > most_blocks ? count : most_blocks;
}

static void operate(uint32_t *state)
{
	uint32_t what = next_random(state) % 100;
	size_t bytes = 8 + next_random(state) % (next_random(state) % 50 ? 300 : 100000);
	size_t i = count ? next_random(state) % count : 0;

	if (count == 0 || (what < 45 && count < BLOCKS_MAX)) {
		count++;
		put(count - 1, what % 2 ? small(bytes) : zeroed(bytes), bytes);
	} else if (what < 70) {
		live_bytes -= blocks[i].bytes;
		put(i, resized(blocks[i].at, bytes), bytes);
	} else {
		free(blocks[i].at);
		live_bytes -= blocks[i].bytes;
		blocks[i] = blocks[--count];
	}
}

int main(int argc, char **argv)
{
	long operations = argc > 1 ? atol(argv[1]) : 0;
	uint32_t state = 4711;

	for (long i = 0; i < operations; i++)
		operate(&state);
	say("%lu %lu\n", (unsigned long)most_bytes, (unsigned long)most_blocks);
	return 0;
}
