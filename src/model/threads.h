/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads. Counters are kept by slot: a slot belongs to one thread at a time, and to the next when
 * that one has ended. A free is counted in the slot of the thread that freed, so what one slot has
 * live may be negative; sums over all slots are not.
 */
#ifndef MODEL_THREADS_H
#define MODEL_THREADS_H

#include "model/profile.h"

struct profile_thread {
	uint32_t tid;
	uint32_t slot; /* below profile_slot_count() */
	uint64_t started_ns;
	uint64_t calls, bytes, frees, freed_bytes; /* of this thread alone */
	const char *name;
};
size_t profile_thread_count(const struct profile_process *process);
struct profile_thread profile_thread(const struct profile_process *process, size_t index);

/* One more than the largest slot of any thread or cell. */
size_t profile_slot_count(const struct profile_process *process);

/* Blocks that `freer` freed and `owner` allocated, both slots. */
enum { PROFILE_OWNER_UNKNOWN = UINT32_MAX };
struct profile_foreign {
	uint32_t freer, owner;
	uint64_t blocks, bytes;
};
size_t profile_foreign_count(const struct profile_process *process);
struct profile_foreign profile_foreign(const struct profile_process *process, size_t index);

/* The part of a site that one slot counted. Pre: index < profile_cell_count(). */
struct profile_cell {
	uint32_t slot;
	int64_t live_bytes, live_blocks;
	int64_t peak_bytes, peak_blocks;
	struct site_numbers numbers; /* live and peak there are 0 where they would be negative */
};
size_t profile_cell_count(const struct profile_process *process, site_id site);
struct profile_cell profile_cell(const struct profile_process *process, site_id site, size_t index);

/* The part of a site that these slots (by slot) counted; what is live there is 0 where it would be negative. */
struct site_numbers profile_slots_numbers(const struct profile_process *process,
					  const struct profile_site *site, const bool *slots);

/* What each slot counted on the heap, by slot, as estimates_add does; in the arena. NULL if out of memory. */
struct site_numbers *profile_slot_sums(const struct profile_process *process, struct arena *arena);

/* The bars of one cell: exact sizes or classes, and lifetimes. */
size_t profile_cell_size_count(const struct profile_process *process, site_id site, size_t cell);
struct profile_bar profile_cell_size(const struct profile_process *process, site_id site,
				     size_t cell, size_t index);
size_t profile_cell_lifetime_count(const struct profile_process *process, site_id site,
				   size_t cell);
struct profile_bar profile_cell_lifetime(const struct profile_process *process, site_id site,
					 size_t cell, size_t index);

#endif
