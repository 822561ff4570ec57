/* SPDX-License-Identifier: Apache-2.0 */
/* Ends that could not be recorded when they happened, because a lock could not be taken: neither live nor freed. Whoever takes
 * that lock next catches up on them, before it does anything else; so the next block at the same address finds its place
 * free. Adding takes no lock. What does not fit is never caught up on; HEALTH_unknown_ends counts all that wait, and those. */
#ifndef RECORDER_COUNTERS_DEFERRED_FREES_H
#define RECORDER_COUNTERS_DEFERRED_FREES_H

#include <stdbool.h>

#include "recorder/memory.h"

enum { DEFERRED_FREES_MAX = 256 };

struct deferred_free {
	uint64_t key; /* what ended; 0 = none. Stored last, release */
	uint64_t value;
};

struct deferred_frees {
	uint32_t count;
	bool touched; /* set before any other field is */
	struct deferred_free end[DEFERRED_FREES_MAX];
};

#define LATE_BEING_WRITTEN UINT64_MAX

/* Any thread. Before the memory that ended can be given out again. */
void deferred_frees_add(struct deferred_frees *late, uint64_t key, uint64_t value);

static inline bool deferred_frees_is_empty(const struct deferred_frees *late)
{
	return LIKELY(__atomic_load_n(&late->count, __ATOMIC_ACQUIRE) == 0);
}

/* The next end from *at on, which begins at 0; false: there is none. Under the lock. */
bool deferred_frees_next(const struct deferred_frees *late, uint32_t *at,
			 struct deferred_free *ret);

/* The end that deferred_frees_next has just given is recorded. Under the lock. */
void deferred_frees_done(struct deferred_frees *late, uint32_t at);

/* In a fork's child, which shares the pages with its parent until it writes to them. */
void deferred_frees_reset(struct deferred_frees *late);
#endif
