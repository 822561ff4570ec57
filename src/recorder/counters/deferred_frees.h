/* SPDX-License-Identifier: Apache-2.0 */
/* Frees that could not be recorded when they happened, because a lock timed out: the blocks count neither as live nor as freed.
 * The next owner of that lock records them before it does anything else, so the next block at the same address finds its entry
 * empty. Adding takes no lock. Frees that do not fit are lost; HEALTH_unknown_ends counts those and all pending ones. */
#ifndef RECORDER_COUNTERS_DEFERRED_FREES_H
#define RECORDER_COUNTERS_DEFERRED_FREES_H

#include <stdbool.h>

#include "recorder/memory.h"

enum { DEFERRED_FREES_MAX = 256 };

struct deferred_free {
	uint64_t key; /* what was freed; 0 = none. Stored last, release */
	uint64_t value;
	uint64_t until; /* of mappings: maps.h */
};

struct deferred_frees {
	uint32_t count;
	bool touched; /* set before any other field */
	struct deferred_free end[DEFERRED_FREES_MAX];
};

#define LATE_BEING_WRITTEN UINT64_MAX

/* Any thread. Call before the freed memory can be reused, unless `until` tells what came later. */
void deferred_frees_add(struct deferred_frees *late, struct deferred_free end);

static inline bool deferred_frees_is_empty(const struct deferred_frees *late)
{
	return LIKELY(__atomic_load_n(&late->count, __ATOMIC_ACQUIRE) == 0);
}

/* Returns the next pending free at or after *at, which starts at 0; false: none. Under the lock. */
bool deferred_frees_next(const struct deferred_frees *late, uint32_t *at,
			 struct deferred_free *ret);

/* Removes the free that deferred_frees_next returned. Under the lock. */
void deferred_frees_done(struct deferred_frees *late, uint32_t at);

/* For a forked child, which shares these pages with its parent until it writes to them. */
void deferred_frees_reset(struct deferred_frees *late);
#endif
