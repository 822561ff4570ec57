/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that were live at the end, by age. */
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

#endif
