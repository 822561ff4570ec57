/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a selection by something other than the stack: the allocating thread, or the requested
 * size.
 *
 * For an additive cost, the groups sum to the selection's total.
 */
#ifndef ANALYSIS_QUERY_SPLIT_H
#define ANALYSIS_QUERY_SPLIT_H

#include "analysis/query/selection.h"

struct split_group {
	const char *label;
	const struct profile_process *process; /* for threads; NULL for sizes */
	struct measures m;
	uint32_t slot;	    /* for threads */
	bool unknown;	    /* for threads: their live bytes at that moment were not measured */
	uint64_t low, high; /* for sizes: the requested size is in [low, high] */
	/* For sizes: rounding is known by size only for sites that request a single size. */
	uint64_t waste_calls, waste_bytes;
	float waste_calls_variance, waste_bytes_variance;
};

/*
 * One group per slot, named after its thread: counters are per slot, and a thread may have inherited
 * the slot of an earlier one. Ordered by process and slot. -1 with the error set.
 */
int split_by_thread(const struct selection *selection, struct arena *arena,
		    struct split_group **ret, size_t *ret_count, struct error *error);

/*
 * One group per exact size, and one per size class for sites that request many sizes; in ascending
 * order. Only calls and total_bytes are known by size, all else in `m` is 0; the bytes of a class are
 * estimated within its bounds such that the sum is exact. -1 with the error set, also if the selection
 * has another cost.
 */
int split_by_size(const struct selection *selection, struct arena *arena, struct split_group **ret,
		  size_t *ret_count, struct error *error);

/* The same for any cost. If that is live or blocks, of the blocks that were live at the end: only live_bytes and live_blocks are
 * known then. */
int split_sizes(const struct selection *selection, struct arena *arena, struct split_group **ret,
		size_t *ret_count, struct error *error);

#endif
