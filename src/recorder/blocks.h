/* SPDX-License-Identifier: Apache-2.0 */
/* The block map: address -> record, requested size, birth. A shadow of the address space in three levels; no locks, no
 * hashing: the blocks of a program never share a granule, so each entry has one writer at a time (whoever holds the
 * block). */
#ifndef RECORDER_BLOCKS_H
#define RECORDER_BLOCKS_H

#include <stdbool.h>

#include "recorder/check.h"
#include "recorder/memory.h"
#include "recorder/order.h"

struct block {
	uint32_t record; /* 0 = the address is not known */
	uint32_t birth_code;
	uint64_t size_bytes;
};

/* The leaves that a thread used last: a leaf never moves, so the upper levels need not be asked again. */
enum { BLOCKS_NEAR = 64 };
struct blocks_near {
	struct {
		uintptr_t mib; /* address >> LIVE_SMALL_SHIFT; 0 = none */
		uint64_t *words;
	} leaf[BLOCKS_NEAR];
};

/* Requests of [limit, LIVE_SMALL_LIMIT) bytes are in small leaves; smaller ones in tiny leaves. The limit is
 * LIVE_TINY_LIMIT where the allocator packs them closer than a granule, else 0. Fixed when the profile is made. */
extern HIDDEN uint64_t blocks_tiny_limit, blocks_small_span;
void blocks_start(bool packed_tightly);

enum { BLOCKS_GRANULE_SHIFT = 5 };

/* A fork's child begins anew. */
void blocks_reset(void);

/* Enters a block. ret_old: an entry that was still there, whose free has not been seen; record 0 = none. */
void blocks_put(struct blocks_near *near, uintptr_t address, const struct block *block,
		struct block *ret_old);
struct block blocks_take_slow(uintptr_t address);

/* The entry of an address, which stays; record 0 = none. */
struct block blocks_find(uintptr_t address);

/* The leaf of an address, kept in `near`. NULL: none there yet. */
uint64_t *blocks_leaf(struct blocks_near *near, uintptr_t address);

static ALWAYS_INLINE size_t blocks_granule(uintptr_t address)
{
	return (address & ((1u << LIVE_SMALL_SHIFT) - 1)) >> BLOCKS_GRANULE_SHIFT;
}

/* The word of a small block's granule. NULL: no leaf there yet. */
static ALWAYS_INLINE uint64_t *blocks_small_word(struct blocks_near *near, uintptr_t address)
{
	uintptr_t mib = address >> LIVE_SMALL_SHIFT;
	uint64_t *words = near->leaf[mib % BLOCKS_NEAR].words;

	if (UNLIKELY(near->leaf[mib % BLOCKS_NEAR].mib != mib)) {
		words = blocks_leaf(near, address);
		if (words == NULL)
			return NULL;
	}
	return words + blocks_granule(address);
}

static ALWAYS_INLINE struct block blocks_unpack(uint64_t word)
{
	return (struct block){ live_small_record(word), live_small_birth(word),
			       live_small_size(word) };
}

/* The same for a block that is about to be entered: seldom in the cache, and the way there is long. NULL: large or tiny,
 * or no leaf there yet. */
static ALWAYS_INLINE uint64_t *blocks_expect(struct blocks_near *near, uintptr_t address,
					     uint64_t size)
{
	uint64_t *word = NULL;

	if (LIKELY(size - blocks_tiny_limit < blocks_small_span)) {
		word = blocks_small_word(near, address);
		__builtin_prefetch(word, 1);
	}
	return word;
}

/* Enters a small block where nothing stands in the way; false: blocks_put is needed. word: of blocks_expect. */
static ALWAYS_INLINE bool blocks_put_quickly(uint64_t *word, uintptr_t address, uint32_t record,
					     uint32_t birth_code, uint64_t size)
{
	if (UNLIKELY(word == NULL || ORDER_LOAD(*word) != 0))
		return false;
	__atomic_store_n(
		word,
		live_small_pack(record, (uint32_t)size, birth_code, live_small_place_of(address)),
		__ATOMIC_RELAXED);
	return true;
}

/* Removes and returns the entry of an address. */
static ALWAYS_INLINE struct block blocks_take(struct blocks_near *near, uintptr_t address)
{
	uint64_t *word = blocks_small_word(near, address);
	uint64_t taken;

	if (UNLIKELY(word == NULL || (taken = ORDER_LOAD(*word)) == 0 ||
		     live_small_place(taken) != live_small_place_of(address)))
		return blocks_take_slow(address);
	RECORDER_CHECK(live_small_size(taken) >= blocks_tiny_limit);
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	return blocks_unpack(taken);
}
#endif
