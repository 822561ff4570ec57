/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks that an allocator inside the executable calls have in common: unlike ours, they are called with some of the allocator's
 * functions on the stack, and after the fact. */
#ifndef RECORDER_LINKED_IN_CALLED_H
#define RECORDER_LINKED_IN_CALLED_H

#include "format/live/live_hooks.h"
#include "recorder/hooks/free.h"
#include "recorder/hooks/linked_in.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/sampling/sampled_blocks.h"

/* False: it is not the one that we know, and nothing is installed. */
bool jemalloc_install(const struct live_hooks *at, char ret_name[static LINKED_IN_NAME]);
bool tcmalloc_install(const struct live_hooks *at, char ret_name[static LINKED_IN_NAME]);

/* What the allocator reserved beyond the requested size. */
static ALWAYS_INLINE uint64_t called_over(uint64_t usable, uint64_t size)
{
	return usable > size ? usable - size : 0;
}

/* The allocator's functions are on the stack up to this address. Without the fast cache, counters_of_walk looks at this; other
 * programs are spared it. */
static ALWAYS_INLINE void called_hide_frames(struct slot *slot, uintptr_t end)
{
	slot->fast_cache = slot->fast_cache_untagged = NULL;
	slot->inner_end = end;
}

/* Enters the hook of a free; NULL: there is nothing to record. */
static ALWAYS_INLINE struct slot *called_enter_free(const void *block, const uintptr_t *frame)
{
	if (sample_is_absent(block) ||
	    (UNLIKELY(sample_is_filtering()) && !sampled_blocks_may_have(block)))
		return NULL;
	return block != NULL ? hook_enter_free(frame) : NULL;
}

/* Ends a block that was taken out of the map; counters 0: it was not there, but may be a sample. */
static ALWAYS_INLINE void called_end(struct slot *slot, void *block, struct block *entry,
				     uint64_t usable, bool may_be_unknown)
{
	uint64_t began = cpu_limit_now();
	bool sample = entry->counters == 0 && record_take_sample(block, entry);

	if (entry->counters != 0)
		record_ended(slot, block, entry, called_over(usable, entry->size_bytes),
			     slot->last_block == block);
	else if (!may_be_unknown)
		record_unknown_free(block);
	if (sample)
		cpu_limit_took_since(began);
}
#endif
