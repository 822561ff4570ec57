/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads. Counters are per slot: of one thread, or of several that share a slot if there are very many. The recorder
 * counts a free at the freeing thread; numbers here are of the blocks that a thread allocated, whichever thread freed
 * them. Unknown numbers are flagged in struct site_numbers.
 */
#ifndef MODEL_THREADS_H
#define MODEL_THREADS_H

#include "model/profile.h"

struct profile_thread {
	uint32_t tid;
	uint32_t slot; /* below profile_slot_count() */
	uint64_t started_ns;
	uint64_t calls, bytes, frees, freed_bytes; /* of this thread alone */
	/* Of its stack: address space, in use when it was last seen, the most in use. 0: unknown. */
	uint64_t stack_reserved_bytes, stack_used_bytes, stack_most_bytes;
	const char *name;
	bool counts_all; /* calls and bytes are exact counts */
};
size_t profile_thread_count(const struct profile_process *process);
struct profile_thread profile_thread(const struct profile_process *process, size_t index);

/* The largest slot of any thread or site counters + 1. */
size_t profile_slot_count(const struct profile_process *process);

/* Blocks that slot `owner` allocated and slot `freer` freed. */
enum { PROFILE_OWNER_UNKNOWN = UINT32_MAX };
struct profile_remote_frees {
	uint32_t freer, owner;
	enum profile_kind kind;
	uint64_t blocks, bytes;
};
size_t profile_remote_frees_count(const struct profile_process *process);
struct profile_remote_frees profile_remote_frees(const struct profile_process *process,
						 size_t index);

/* Whether no block of the kind was freed across the boundary between these slots (by slot) and the others. */
bool profile_slots_closed(const struct profile_process *process, enum profile_kind kind,
			  const bool *slots);

/* The part of a site that one slot allocated. Pre: index < profile_counters_count(). */
struct profile_counters {
	uint32_t slot;
	uint64_t frees_made, freed_made_bytes; /* frees by this slot, of blocks of any slot */
	struct site_numbers numbers;
};
size_t profile_counters_count(const struct profile_process *process, site_id site);
struct profile_counters profile_counters(const struct profile_process *process, site_id site,
					 size_t index);

/* The part of a site that these slots (by slot) allocated; closed: profile_slots_closed() of its kind. */
struct site_numbers profile_slots_numbers(const struct profile_process *process,
					  const struct profile_site *site, const bool *slots,
					  bool closed);

/* Heap allocations of each slot, by slot, summed like estimates_add, except that frees are those made by the slot; in the
 * arena. NULL if out of memory. */
struct site_numbers *profile_slot_sums(const struct profile_process *process, struct arena *arena);

/* For build.c: sets counters_live and remote_free_kinds of the process. -1 if out of memory. */
int threads_build(struct profile_process *process, struct arena *arena);

/* The bars of one slot's counters: exact sizes or size classes, and lifetimes. */
size_t profile_counters_size_count(const struct profile_process *process, site_id site,
				   size_t counters);
struct profile_bar profile_counters_size(const struct profile_process *process, site_id site,
					 size_t counters, size_t index);
size_t profile_counters_lifetime_count(const struct profile_process *process, site_id site,
				       size_t counters);
struct profile_bar profile_counters_lifetime(const struct profile_process *process, site_id site,
					     size_t counters, size_t index);

#endif
