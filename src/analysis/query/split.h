/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A selection split by what is no part of a stack: who called, and how much was asked for.
 *
 * The parts of an additive cost add up to the selection's sum.
 */
#ifndef ANALYSIS_QUERY_SPLIT_H
#define ANALYSIS_QUERY_SPLIT_H

#include "analysis/query/selection.h"

struct split_group {
	const char *label;
	const struct profile_process *process; /* of a thread; NULL for a size */
	struct measures m;
	uint32_t slot;	    /* of threads */
	bool unknown;	    /* of threads: what they hold, or held, was not measured */
	uint64_t low, high; /* of sizes: what was asked for is in [low, high] */
	/* Of sizes: rounding is known by size only where a site asks for one size alone. */
	uint64_t waste_calls, waste_bytes;
	float waste_calls_variance, waste_bytes_variance;
};

/*
 * One group for each slot, called after its thread: counters are kept by slot, and a thread may have
 * inherited the slot of an earlier one. In the order of process and slot. -1 with the error set.
 */
int split_by_thread(const struct selection *selection, struct arena *arena,
		    struct split_group **ret, size_t *ret_count, struct error *error);

/*
 * One group for each exact size and for each class of sizes, which stands for sites that ask for many;
 * by ascending size. Only calls and total_bytes are known by size, everything else in `m` is 0; a
 * class' bytes are estimated within its bounds, such that the sum is exact. -1 with the error set:
 * also if the cost of the selection is another.
 */
int split_by_size(const struct selection *selection, struct arena *arena, struct split_group **ret,
		  size_t *ret_count, struct error *error);

/* The same whatever the cost. */
int split_sizes(const struct selection *selection, struct arena *arena, struct split_group **ret,
		size_t *ret_count, struct error *error);

#endif
