/* SPDX-License-Identifier: Apache-2.0 */
/* The block map of busy pools: a word for each 16 bytes of the address space that such pools hand out, like malloc's block map. No
 * lock and no search: an entry has one writer at a time, the owner of the block. So all pools that use it must be allocators that
 * never hold the same address at the same time, like those of one interpreter. */
#ifndef RECORDER_API_POOL_WORDS_H
#define RECORDER_API_POOL_WORDS_H

#include "recorder/api/pools.h"
#include "recorder/order.h"
#include "recorder/slot.h"

enum { POOL_LEAF_SHIFT = 20, POOL_GRANULE_SHIFT = 4, POOL_CACHE_LEAVES = 64, POOL_TAGGED = 256 };

/* A thread's cache of recent lookups. */
struct pool_cache {
	uint32_t leaves_refused; /* lookups left until the next attempt to allocate one */
	struct pool_cache_leaf {
		uintptr_t number; /* address >> POOL_LEAF_SHIFT; 0 = none */
		uint64_t *words;  /* a leaf never moves */
	} leaf[POOL_CACHE_LEAVES];
	struct slot_recent tagged[POOL_TAGGED]; /* by site counters << 32 | tag */
};

/* Starts over in a forked child. */
void pool_words_reset(void);

/* The slot's cache, made on first use; NULL: no memory. */
struct pool_cache *pool_cache_make(struct slot *slot);
/* Call when the slot goes to another thread. */
void pool_cache_forget(struct slot *slot);

/* Returns the words of a leaf, allocated if `make`, and caches them in `near`. NULL: none. */
uint64_t *pool_words_leaf(struct slot *slot, uintptr_t address, bool make);

/* The word of an address; NULL: none. */
static ALWAYS_INLINE uint64_t *pool_word(struct slot *slot, uintptr_t address, bool make)
{
	const struct pool_cache *cache = slot->pool_cache;
	uintptr_t number = address >> POOL_LEAF_SHIFT;
	const struct pool_cache_leaf *leaf =
		LIKELY(cache != NULL) ? &cache->leaf[number % POOL_CACHE_LEAVES] : NULL;
	uint64_t *words = LIKELY(leaf != NULL && leaf->number == number)
				  ? leaf->words
				  : pool_words_leaf(slot, address, make);

	return words != NULL
		       ? words + ((address & ((1u << POOL_LEAF_SHIFT) - 1)) >> POOL_GRANULE_SHIFT)
		       : NULL;
}

/* A word belongs to the block that begins with its 16 bytes: two that share them would be two writers. */
static inline bool pool_words_aligned(uintptr_t address)
{
	return (address & ((1u << POOL_GRANULE_SHIFT) - 1)) == 0;
}

static inline struct pool_block pool_words_unpack(uintptr_t address, uint64_t word)
{
	return (struct pool_block){ .address = address,
				    .bytes = live_small_size(word),
				    .rounded_up = live_small_place(word) & 1,
				    .counters = live_small_counters(word),
				    .birth_ms = live_small_birth(word) };
}

/* Enters a block by its word. False: it is large, not aligned, or born after more than nine hours. */
static ALWAYS_INLINE bool pool_words_put(struct slot *slot, const struct pool_block *block,
					 struct pool_block *ret_old)
{
	uint64_t *word = NULL, before;

	if (block->bytes < LIVE_SMALL_LIMIT && block->birth_ms < LIVE_BIRTH_UNKNOWN &&
	    pool_words_aligned(block->address))
		word = pool_word(slot, block->address, true);
	if (word == NULL)
		return false;
	before = ORDER_LOAD(*word);
	if (UNLIKELY(before != 0))
		*ret_old = pool_words_unpack(block->address, before);
	__atomic_store_n(word,
			 live_small_pack(block->counters, (uint32_t)block->bytes,
					 (uint32_t)block->birth_ms, block->rounded_up),
			 __ATOMIC_RELEASE);
	return true;
}

/* Takes a block out by its word; false: it is not there. */
static ALWAYS_INLINE bool pool_words_take(struct slot *slot, uintptr_t address,
					  struct pool_block *ret)
{
	uint64_t *word = pool_words_aligned(address) ? pool_word(slot, address, false) : NULL;
	uint64_t value = word != NULL ? ORDER_LOAD(*word) : 0;

	if (value == 0)
		return false;
	*ret = pool_words_unpack(address, value);
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	return true;
}
#endif
