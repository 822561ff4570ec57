/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that were live at the end, by age and by size. */
#ifndef MODEL_AGES_H
#define MODEL_AGES_H

#include "model/profile.h"

/* Blocks of one site whose age is in [low_ms, high_ms). */
struct profile_age {
	uint64_t low_ms, high_ms;
	uint64_t blocks, bytes;
};

/* The ages of site i are at[first[i]] up to but excluding at[first[i + 1]], in ascending order. */
struct profile_ages {
	const struct profile_age *at;
	const uint32_t *first;
	size_t site_count; /* first has one more element */
};

/*
 * The ages of all sites of the process, for blocks that these slots (by slot; NULL: all) allocated, in the arena. Empty if the process was
 * not observed at its end: a site may have live blocks without an age. -1 if out of memory.
 */
int profile_ages(const struct profile_process *process, const bool *slots, struct arena *arena,
		 struct profile_ages *ret);

/* Live blocks of one site and slot with [low, high] requested bytes; equal: the exact size. In any order; several may be equal. Empty
 * like the ages, and for recordings before 1.10. */
struct profile_live_size {
	site_id site;
	uint32_t slot;
	uint64_t low, high, blocks;
};
size_t profile_live_size_count(const struct profile_process *process);
struct profile_live_size profile_live_size(const struct profile_process *process, size_t index);

#endif
