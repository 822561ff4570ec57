/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads. Counters are kept by slot: those of one thread, or of several that shared them where there were very many. A
 * recorder counts a free where the thread that freed counts; numbers here are those of the blocks that a thread allocated,
 * whoever freed them. What cannot be known then says so: struct site_numbers.
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
	bool counts_all; /* calls and bytes are no estimates */
};
size_t profile_thread_count(const struct profile_process *process);
struct profile_thread profile_thread(const struct profile_process *process, size_t index);

/* One more than the largest slot of any thread or site counters. */
size_t profile_slot_count(const struct profile_process *process);

/* Blocks that `freer` freed and `owner` allocated, both slots. */
enum { PROFILE_OWNER_UNKNOWN = UINT32_MAX };
struct profile_remote_frees {
	uint32_t freer, owner;
	enum profile_kind kind;
	uint64_t blocks, bytes;
};
size_t profile_remote_frees_count(const struct profile_process *process);
struct profile_remote_frees profile_remote_frees(const struct profile_process *process,
						 size_t index);

/* Whether no block of the kind went from these slots (by slot) to others, or from others to them. */
bool profile_slots_closed(const struct profile_process *process, enum profile_kind kind,
			  const bool *slots);

/* The part of a site that one slot allocated. Pre: index < profile_counters_count(). */
struct profile_counters {
	uint32_t slot;
	uint64_t frees_made, freed_made_bytes; /* of the site's blocks, whoever allocated them */
	struct site_numbers numbers;
};
size_t profile_counters_count(const struct profile_process *process, site_id site);
struct profile_counters profile_counters(const struct profile_process *process, site_id site,
					 size_t index);

/* The part of a site that these slots (by slot) allocated; closed: profile_slots_closed() of its kind. */
struct site_numbers profile_slots_numbers(const struct profile_process *process,
					  const struct profile_site *site, const bool *slots,
					  bool closed);

/* What each slot allocated on the heap, by slot, as estimates_add does, but for frees, which are those that it made; in the
 * arena. NULL if out of memory. */
struct site_numbers *profile_slot_sums(const struct profile_process *process, struct arena *arena);

/* For build.c: the process' counters_live and passed. -1 if out of memory. */
int threads_build(struct profile_process *process, struct arena *arena);

/* The bars of one slot's counters: exact sizes or classes, and lifetimes. */
size_t profile_counters_size_count(const struct profile_process *process, site_id site,
				   size_t counters);
struct profile_bar profile_counters_size(const struct profile_process *process, site_id site,
					 size_t counters, size_t index);
size_t profile_counters_lifetime_count(const struct profile_process *process, site_id site,
				       size_t counters);
struct profile_bar profile_counters_lifetime(const struct profile_process *process, site_id site,
					     size_t counters, size_t index);

#endif
