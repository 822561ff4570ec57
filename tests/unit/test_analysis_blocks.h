/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of the random profiles: blocks, each with all that happened to it. */
#ifndef TEST_ANALYSIS_BLOCKS_H
#define TEST_ANALYSIS_BLOCKS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "format/recording/recording.h"
#include "unit.h"

enum {
	RANDOM_PROCESSES = 3,
	RANDOM_SITES = 14, /* of each process, from 1 on */
	RANDOM_SLOTS = 5,
	RANDOM_BLOCKS = 900,
	RANDOM_FRAMES = 9,
	RANDOM_NODES = 24,
	RANDOM_TICKS = 5000, /* milliseconds that a process runs */
	RANDOM_PEAK = 2500,
};

struct random_block {
	unsigned process, site, slot, freer;
	uint64_t size, waste, copied;
	unsigned born, died; /* ticks; died RANDOM_TICKS: never */
	bool temporary, moved;
};

struct random_world {
	struct random_block blocks[RANDOM_BLOCKS];
	uint64_t seed;
};

static inline bool block_freed(const struct random_block *b)
{
	return b->died < RANDOM_TICKS;
}

static inline bool block_at_peak(const struct random_block *b)
{
	return b->born <= RANDOM_PEAK && b->died > RANDOM_PEAK;
}

/* Sites with an even number ask for few sizes, the others for any. Every fifth site is of mmap. */
static inline uint64_t random_size(struct random_world *w, unsigned site)
{
	static const uint64_t few[] = { 0, 1, 24, 100, 4096 };

	if (site % 4 == 0)
		return 64;
	if (site % 2 == 0)
		return few[unit_random(&w->seed) % ARRAY_SIZE(few)];
	return unit_random_length(&w->seed) >> 44;
}

static inline uint32_t random_kind(unsigned site)
{
	return site % 5 == 0 ? LIVE_KIND_MMAP : LIVE_KIND_HEAP;
}

static inline void random_blocks(struct random_world *w)
{
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		struct random_block *b = &w->blocks[i];

		b->process = (unsigned)(unit_random(&w->seed) % RANDOM_PROCESSES);
		b->site = 1 + (unsigned)(unit_random(&w->seed) % RANDOM_SITES);
		b->slot = (unsigned)(unit_random(&w->seed) % RANDOM_SLOTS);
		b->size = random_size(w, b->site);
		b->waste = (16 - b->size % 16) % 16;
		b->born = (unsigned)(unit_random(&w->seed) % RANDOM_TICKS);
		b->died = b->born + (unsigned)(unit_random_length(&w->seed) % RANDOM_TICKS);
		b->died = MIN(b->died, (unsigned)RANDOM_TICKS);
		b->freer = unit_random(&w->seed) % 3
				   ? b->slot
				   : (unsigned)(unit_random(&w->seed) % RANDOM_SLOTS);
		b->temporary = block_freed(b) && b->freer == b->slot && unit_random(&w->seed) % 2;
		b->moved = unit_random(&w->seed) % 4 == 0;
		b->copied = b->moved ? b->size / 2 : 0;
	}
}

#endif
