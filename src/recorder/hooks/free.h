/* SPDX-License-Identifier: Apache-2.0 */
/* Records one free before it is forwarded: first the steps in execution order,
 * then the functions that combine them. The slow paths are in free.c. */
#ifndef RECORDER_HOOKS_FREE_H
#define RECORDER_HOOKS_FREE_H

#include "recorder/hooks/allocation.h"
#include "recorder/unwind/modules.h"

/* Copies a block for slow paths: a block whose address escapes could not stay in registers. */
static ALWAYS_INLINE struct block blocks_copy(struct block block)
{
	return (struct block){ block.counters, block.weight, block.birth_ms, block.size_bytes };
}

/* Removes and returns the map entry of an address. */
static ALWAYS_INLINE struct block blocks_take(struct block_cache *cache, uintptr_t address)
{
	uint64_t *word = blocks_small_word(cache, address);
	uint64_t taken;

	if (UNLIKELY(word == NULL || (taken = ORDER_LOAD(*word)) == 0 ||
		     live_small_place(taken) != live_small_place_of(address)))
		return blocks_copy(blocks_take_slow(address));
	RECORDER_CHECK(live_small_size(taken) >= blocks_tiny_limit);
	uint64_t birth_ms = live_small_birth(taken);

	if (UNLIKELY(ORDER_LOAD(blocks_have_eras))) {
		struct blocks_leaf *leaf = block_cache_leaf(cache, address);
		const uint16_t *era = LIKELY(leaf->eras != 0) ? blocks_era(leaf, word)
							      : blocks_find_era(leaf, word);

		if (era != NULL)
			birth_ms = live_birth(ORDER_LOAD(*era), (uint32_t)birth_ms);
	}
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	return (struct block){ .counters = live_small_counters(taken),
			       .birth_ms = birth_ms,
			       .size_bytes = live_small_size(taken) };
}
static ALWAYS_INLINE void account_remove(struct slot *slot, struct live_site_counters *counters,
					 uint64_t size, uint64_t weight)
{
	struct live_slot *live = slot->live;

	if (UNLIKELY(account_live(live) - (int64_t)(size * weight) <
		     __atomic_load_n(&slot->floor, __ATOMIC_RELAXED)))
		account_below(slot, size * weight);
	account_save(counters);
	ARCH_ORDER_STORES(); /* readers that load the frees first find the allocation */
	arch_add(&counters->frees, weight);
	arch_add(&counters->freed_bytes, size * weight);
	arch_add(&live->frees, weight);
	arch_add(&live->freed_bytes, size * weight);
}

static ALWAYS_INLINE void account_free(struct slot *slot, struct live_site_counters *counters,
				       uint64_t size, uint64_t fragmentation, uint64_t birth_ms,
				       bool temporary, uint64_t weight)
{
	if (LIKELY(!ORDER_LOAD(account_serial)))
		account_remove(slot, counters, size, weight);
	else
		account_remove_serial(slot, counters, size, weight);
	if (UNLIKELY(birth_ms != clock_ms()))
		account_block_lifetime(slot, counters, size, birth_ms, weight);
	arch_add(&counters->freed_fragmentation, fragmentation * weight);
	arch_add(&slot->live->freed_fragmentation, fragmentation * weight);
	if (temporary) {
		arch_add(&counters->temporary, weight);
		arch_add(&slot->live->temporary, weight);
	}
}
void record_unknown_free(const void *block);
/* A free of a block not in the map: a sample, one that operator delete frees, or unknown. */
void record_free_of_unknown(struct slot *slot, void *block);
/* Records the free of a block if it is a sample; false: it is not. */
bool record_free_sample(struct slot *slot, void *block);
/* For realloc: takes a sample out of the index (false: not a sample), and puts it back. */
bool record_take_sample(const void *block, struct block *ret);
void record_put_sample_back(struct slot *slot, void *block, const struct block *entry,
			    uint64_t fragmentation);
/* Returns the freeing thread's counters for a block that another thread allocated. */
struct live_site_counters *counters_of_remote(struct slot *slot,
					      const struct live_site_counters *owner, uint64_t size,
					      uint64_t weight);
/* record_end for a sample. */
void record_sample_end(struct slot *slot, const void *address, const struct block *block,
		       uint64_t fragmentation, bool temporary);

/* The unrounded weight of a block of a site. */
static inline uint64_t exact_weight_of(const struct live_site_counters *counters, uint64_t size)
{
	return sample_weight(size,
			     counters->samples != 0 ? memory_site(counters->site)->interval : 0);
}

/* What else to do at the end of a block: count it for the stack of the hook that ends it (record --free-sites), and remember its site for
 * the time that the forwarded free takes (--time-calls). */
extern HIDDEN bool free_notes_wanted;
void free_notes_start(bool stacks, bool sites);
void record_free_notes(struct slot *slot, const void *address, const struct block *block);

/* Accounts for the end of a block whose free was not seen. */
static ALWAYS_INLINE void record_missed_end(struct slot *slot, const void *address,
					    const struct block *block, uint64_t fragmentation,
					    bool temporary)
{
	struct live_site_counters *counters = memory_counters(block->counters);

	if (CHECKED)
		check_block(block);
	if (UNLIKELY(counters->samples != 0)) {
		struct block sample = blocks_copy(*block);

		record_sample_end(slot, address, &sample, fragmentation, temporary);
		return;
	}
	if (UNLIKELY(counters->thread != slot->thread)) {
		counters = counters_of_remote(slot, counters, block->size_bytes, 1);
		temporary = false; /* another thread passed the address here */
	}
	account_free(slot, counters, block->size_bytes, fragmentation, block->birth_ms, temporary,
		     1);
}

/* Accounts for the end of a block that was found in the map. */
static ALWAYS_INLINE void record_end(struct slot *slot, const void *address,
				     const struct block *block, uint64_t fragmentation,
				     bool temporary)
{
	if (UNLIKELY(free_notes_wanted)) {
		struct block ended = blocks_copy(*block);

		record_free_notes(slot, address, &ended);
	}
	record_missed_end(slot, address, block, fragmentation, temporary);
}

/* record_end for a block whose memory is about to be released. */
static ALWAYS_INLINE void record_ended(struct slot *slot, void *block, const struct block *entry,
				       uint64_t fragmentation, bool temporary)
{
	if (temporary)
		slot->last_block = NULL;
	record_end(slot, block, entry, fragmentation, temporary);
	if (UNLIKELY(entry->size_bytes >= LIVE_SMALL_LIMIT))
		stack_memory_unmapped((uintptr_t)block,
				      entry->size_bytes); /* it may have been a coroutine's stack */
}

/* Records that a block is about to be freed. */
static ALWAYS_INLINE void record_free(struct slot *slot, void *block, const uintptr_t *frame)
{
	if (modules_is_loader(frame[1]))
		modules_loader_frees(slot, block);
	struct block entry = blocks_take(&slot->block_cache, (uintptr_t)block);

	if (LIKELY(entry.counters != 0))
		record_ended(slot, block, &entry, fragmentation_of(block, entry.size_bytes),
			     slot->last_block == block);
	else
		record_free_of_unknown(slot, block);
	ORDER_GIVES(block);
}

/* A block before its realloc. */
struct realloc_old {
	struct block entry; /* counters 0: not recorded */
	uint64_t fragmentation;
	uint64_t
		size_bytes; /* for a block that was not recorded, the usable size is the best estimate */
};

/* Records that a realloc turned `block`, which may be NULL, into `moved`, NULL: it was freed. Pre: its entry was taken out. */
static ALWAYS_INLINE void record_realloc(struct slot *slot, const void *block,
					 const struct realloc_old *old, void *moved, uint64_t size,
					 uint64_t fragmentation, const uintptr_t *frame,
					 enum live_entry entry)
{
	if (old->entry.counters != 0)
		record_end(slot, block, &old->entry, old->fragmentation, false);
	else if (block != NULL)
		record_unknown_free(block);
	if (UNLIKELY(moved == NULL))
		return;
	struct live_site_counters *counters =
		record_new(slot, moved, size, fragmentation, frame, entry);

	/* The call has the weight of the new block, whether or not the old one was a sample. */
	if (LIKELY(counters != NULL) &&
	    (old->entry.counters != 0 || UNLIKELY(block != NULL && counters->samples != 0)))
		account_realloc(slot, counters, old->size_bytes, size, moved != block,
				counters->samples != 0 ? slot->last_weight : 1);
}
#endif
