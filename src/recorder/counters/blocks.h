/* SPDX-License-Identifier: Apache-2.0 */
/* The block map: address -> site counters, requested size, birth. A three-level shadow of the address space; no locks, no
 * hashing: two blocks never share a granule, so each entry has one writer at a time (the thread that owns the block). The
 * fast paths for small blocks are in hooks/allocation.h and hooks/free.h. */
#ifndef RECORDER_COUNTERS_BLOCKS_H
#define RECORDER_COUNTERS_BLOCKS_H

#include <stdbool.h>

#include "recorder/checks/check.h"
#include "recorder/memory.h"
#include "recorder/order.h"

struct block {
	uint32_t counters; /* 0 = unknown address */
	uint32_t weight;   /* number of blocks that a sample represents; else unused */
	uint64_t birth_ms;
	uint64_t size_bytes;
};

/* A thread's cache of recently used leaves: a leaf never moves, so the upper levels need not be read again. */
enum { BLOCK_CACHE_LEAVES = 64 };
struct blocks_leaf {
	uintptr_t mib; /* address >> LIVE_SMALL_SHIFT; 0 = none */
	uint64_t *words;
	uintptr_t
		eras; /* the era of the word at w is at eras + w / 4; 0 = not looked up yet, or none */
	uintptr_t pad;
};
struct block_cache {
	struct blocks_leaf leaf[BLOCK_CACHE_LEAVES];
};

/* Requests of [limit, LIVE_SMALL_LIMIT) bytes are in small leaves, smaller ones in tiny leaves. The limit is LIVE_TINY_LIMIT
 * if the allocator packs blocks closer than a granule, else 0. Fixed when the profile is created. */
extern HIDDEN uint64_t blocks_tiny_limit, blocks_small_span;
void blocks_start(bool packed_tightly);

enum { BLOCKS_GRANULE_SHIFT = 5 };

/* Starts over in a forked child. */
void blocks_reset(void);

/* Inserts a block. ret_old: an entry that was still there because its free was missed; counters 0 = none. */
void blocks_put(struct block_cache *cache, uintptr_t address, const struct block *block,
		struct block *ret_old);
struct block blocks_take_slow(uintptr_t address);

/* True if any block is of an era later than 0. The clock cannot tell: it may be set back by a tick. */
extern HIDDEN bool blocks_have_eras;
/* Returns the address of the era of a word in a small leaf; NULL: none, which means era 0. */
const uint16_t *blocks_find_era(struct blocks_leaf *leaf, const uint64_t *word);

/* Decodes a nonzero word of a small or tiny leaf. */
struct block blocks_unpack(const uint64_t *word);

/* Looks up an address without removing its entry; counters 0 = none. */
struct block blocks_find(uintptr_t address);

/* Looks up the leaf of an address and caches it in `near`. NULL: not allocated yet. */
uint64_t *blocks_leaf(struct block_cache *cache, uintptr_t address);

static ALWAYS_INLINE size_t blocks_granule(uintptr_t address)
{
	return (address & ((1u << LIVE_SMALL_SHIFT) - 1)) >> BLOCKS_GRANULE_SHIFT;
}

static ALWAYS_INLINE struct blocks_leaf *block_cache_leaf(struct block_cache *cache,
							  uintptr_t address)
{
	return &cache->leaf[(address >> LIVE_SMALL_SHIFT) % BLOCK_CACHE_LEAVES];
}

/* The word of a small block's granule. NULL: the leaf is not allocated yet. */
static ALWAYS_INLINE uint64_t *blocks_small_word(struct block_cache *cache, uintptr_t address)
{
	const struct blocks_leaf *leaf = block_cache_leaf(cache, address);
	uint64_t *words = leaf->words;

	if (UNLIKELY(leaf->mib != address >> LIVE_SMALL_SHIFT)) {
		words = blocks_leaf(cache, address);
		if (words == NULL)
			return NULL;
	}
	return words + blocks_granule(address);
}

static ALWAYS_INLINE uint16_t *blocks_era(const struct blocks_leaf *leaf, const uint64_t *word)
{
	return (uint16_t *)(leaf->eras + ((uintptr_t)word >> 2));
}
#endif
