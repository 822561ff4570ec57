/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks by age, size and lifetime: those that were live at the end, and what was counted of all. */
#ifndef MODEL_AGES_H
#define MODEL_AGES_H

#include "model/profile.h"

/* Distributions of a site over its counters in the slots (by slot; NULL: all), in ascending order; computed on demand, because few sites
 * need them. -1 if out of memory. Size bars do not overlap: an exact size inside a class that other counters use is counted in the class. */
int profile_sizes(const struct profile_process *process, site_id site, const bool *slots,
		  struct arena *arena, struct profile_bars *ret);
int profile_lifetimes(const struct profile_process *process, site_id site, const bool *slots,
		      struct arena *arena, struct profile_bars *ret);
/* The upper bound of a class of lifetimes or ages, in ms: no block lives longer than its process. */
uint64_t profile_age_limit(const struct profile_process *process, uint64_t low_ms,
			   uint64_t high_ms);

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

/* Live blocks of the heap with [low, high] requested bytes when a snapshot was asked for; by time, then by size. at_ns is that of the
 * snapshot. Recordings before 1.11 have none. */
struct profile_size_moment {
	uint64_t at_ns, low, high, blocks, bytes;
};
size_t profile_size_moment_count(const struct profile_process *process);
struct profile_size_moment profile_size_moment(const struct profile_process *process, size_t index);

/* Joint distributions of the heap of a process, by classes: 0, [1, 2), [2, 4), ...; the last is open. */
enum { PAIR_CLASSES = 40 };
enum profile_pairs_kind {
	PAIRS_REALLOC,	/* requested bytes before and after a realloc */
	PAIRS_LIFETIME, /* requested bytes and lifetime in ms of blocks that were freed */
};
/* Adds to the sums, by the first class and then by the second. Recordings before 1.10 have none. */
void profile_pairs_add(const struct profile_process *process, enum profile_pairs_kind kind,
		       uint64_t sums[PAIR_CLASSES][PAIR_CLASSES]);

#endif
