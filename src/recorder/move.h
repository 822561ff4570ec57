/* SPDX-License-Identifier: Apache-2.0 */
/* Writing nodes, sites, records and what belongs to them anew, without some of them, to another place. For evict.c; nobody
 * else is at work. Numbers keep their order: a node's parent still comes before it. */
#ifndef RECORDER_MOVE_H
#define RECORDER_MOVE_H

#include "recorder/memory.h"

enum { MOVED_REGIONS = 5 };
extern HIDDEN const enum live_region moved_regions[MOVED_REGIONS];

/* Which numbers stay, and what becomes of them. */
struct move_kept {
	uint64_t *bits;
	uint32_t *before; /* how many stay below each 64 */
	uint64_t words, count;
};

struct move_sum {
	uint64_t blocks, bytes, total_bytes; /* live, live, ever */
	uint64_t peak_bytes;
};

struct move_place {
	struct live_span span;
	char *at;
	uint64_t opened, used;
};

struct move {
	struct move_kept nodes, sites, records;
	struct move_sum *sum; /* by site */
	uint64_t pool_units;  /* at most */
	struct move_place place[MOVED_REGIONS];
	void *work;
	uint64_t work_bytes;
};

/* Nothing is kept yet. False: no memory for it. */
bool move_begin(struct move *move);
void move_end(struct move *move);

static inline void move_keep(struct move_kept *kept, uint32_t number)
{
	kept->bits[number / 64] |= UINT64_C(1) << number % 64;
}
static inline bool move_has(const struct move_kept *kept, uint32_t number)
{
	return kept->bits[number / 64] >> number % 64 & 1;
}

/* All that stay are known: gives them their numbers. */
void move_count(struct move *move);
/* The new number of one that stays. */
uint32_t move_number(const struct move_kept *kept, uint32_t number);
/* What a region will take. */
uint64_t move_bytes(const struct move *move, enum live_region region);

/* Fills the places, which are open and zero. */
void move_all(struct move *move);
#endif
