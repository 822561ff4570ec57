/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that were alive at the end, by how long they had been. */
#ifndef MODEL_AGES_H
#define MODEL_AGES_H

#include "model/profile.h"

/* Blocks of one site whose age is in [low_ms, high_ms). */
struct profile_age {
	uint64_t low_ms, high_ms;
	uint64_t blocks, bytes;
};

/* Those of site i are at[first[i]] up to, not with, at[first[i + 1]]; by ascending age. */
struct profile_ages {
	const struct profile_age *at;
	const uint32_t *first;
	size_t site_count; /* first has one more */
};

/*
 * Of all sites of the process, of what these slots (by slot; NULL: all) allocated, in the arena. A recording of a process that was not looked at in its
 * end has none: a site may hold blocks without an age. -1 if out of memory.
 */
int profile_ages(const struct profile_process *process, const bool *slots, struct arena *arena,
		 struct profile_ages *ret);

#endif
