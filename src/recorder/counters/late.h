/* SPDX-License-Identifier: Apache-2.0 */
/* Ends that could not be recorded when they happened, because a lock was not to be had: neither live nor freed. Whoever takes
 * that lock next catches up on them, before it does anything else; so the next block at the same address finds its place
 * free. Adding takes no lock. What does not fit is never caught up on; HEALTH_unknown_ends counts all that wait, and those. */
#ifndef RECORDER_COUNTERS_LATE_H
#define RECORDER_COUNTERS_LATE_H

#include <stdbool.h>

#include "recorder/memory.h"

enum { LATE_ENDS = 256 };

struct late_end {
	uint64_t key; /* what ended; 0 = none. Stored last, release */
	uint64_t value;
};

struct late {
	uint32_t count;
	struct late_end end[LATE_ENDS];
};

#define LATE_BEING_WRITTEN UINT64_MAX

/* Any thread. Before the memory that ended can be given out again. */
void late_add(struct late *late, uint64_t key, uint64_t value);

static inline bool late_is_empty(const struct late *late)
{
	return LIKELY(__atomic_load_n(&late->count, __ATOMIC_ACQUIRE) == 0);
}

/* The next end from *at on, which begins at 0; false: there is none. Under the lock. */
bool late_next(const struct late *late, uint32_t *at, struct late_end *ret);

/* The end that late_next has just given is recorded. Under the lock. */
void late_done(struct late *late, uint32_t at);

void late_reset(struct late *late);
#endif
