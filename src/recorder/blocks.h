/* SPDX-License-Identifier: Apache-2.0 */
/* The block map: address -> record, requested size, birth. A shadow of the address space in three levels; no locks, no
 * hashing: the blocks of a program never share a granule, so each entry has one writer at a time (whoever holds the
 * block). */
#ifndef RECORDER_BLOCKS_H
#define RECORDER_BLOCKS_H

#include <stdbool.h>

#include "recorder/memory.h"

struct block {
	uint32_t record; /* 0 = the address is not known */
	uint32_t birth_code;
	uint64_t size_bytes;
};

/* Requests below this are in tiny leaves: LIVE_TINY_LIMIT where the allocator packs them closer than a granule, else 0.
 * Fixed when the profile is made. */
extern uint32_t blocks_tiny_limit;

enum { BLOCKS_GRANULE_SHIFT = 5 };

/* A fork's child begins anew. */
void blocks_reset(void);

void blocks_put_slow(uintptr_t address, const struct block *block, struct block *ret_old);
struct block blocks_take_slow(uintptr_t address);

/* The entry of an address, which stays; record 0 = none. */
struct block blocks_find(uintptr_t address);

/* The word of a small block's granule. NULL: no leaf there yet. */
static ALWAYS_INLINE uint64_t *blocks_small_word(uintptr_t address)
{
	uint64_t top_index = address >> LIVE_AREA_SHIFT;

	if (UNLIKELY(top_index >= LIVE_TOP_ENTRIES))
		return NULL;
	uint32_t area_number = __atomic_load_n(&memory.head->top[top_index], __ATOMIC_ACQUIRE);

	if (UNLIKELY(area_number == 0))
		return NULL;
	struct live_area *area =
		(struct live_area *)(void *)memory.region[LIVE_AREAS] + (area_number - 1);
	uint64_t index = address >> LIVE_SMALL_SHIFT & (ARRAY_SIZE(area->small) - 1);
	uint32_t leaf = __atomic_load_n(&area->small[index], __ATOMIC_ACQUIRE);

	if (UNLIKELY(leaf == 0))
		return NULL;
	uint64_t *words = (uint64_t *)(void *)(memory.region[LIVE_LEAVES] +
					       (uint64_t)(leaf - 1) * LIVE_LEAF_UNIT);

	return &words[(address & ((1u << LIVE_SMALL_SHIFT) - 1)) >> BLOCKS_GRANULE_SHIFT];
}

static ALWAYS_INLINE struct block blocks_unpack(uint64_t word)
{
	return (struct block){ live_small_record(word), live_small_birth(word),
			       live_small_size(word) };
}

static ALWAYS_INLINE uint64_t blocks_pack(uintptr_t address, const struct block *block)
{
	return live_small_pack(block->record, (uint32_t)block->size_bytes, block->birth_code,
			       live_small_place_of(address));
}

/* Enters a block. ret_old: an entry that was still there, whose free has not been seen; record 0 = none. */
static ALWAYS_INLINE void blocks_put(uintptr_t address, const struct block *block,
				     struct block *ret_old)
{
	uint64_t *word;

	ret_old->record = 0;
	if (UNLIKELY(block->size_bytes - blocks_tiny_limit >=
			     LIVE_SMALL_LIMIT - blocks_tiny_limit ||
		     (word = blocks_small_word(address)) == NULL)) {
		blocks_put_slow(address, block, ret_old);
		return;
	}
	if (UNLIKELY(*word != 0))
		*ret_old = blocks_unpack(*word);
	__atomic_store_n(word, blocks_pack(address, block), __ATOMIC_RELAXED);
}

/* Removes and returns the entry of an address. */
static ALWAYS_INLINE struct block blocks_take(uintptr_t address)
{
	uint64_t *word = blocks_small_word(address);

	if (UNLIKELY(word == NULL || *word == 0 ||
		     live_small_place(*word) != live_small_place_of(address)))
		return blocks_take_slow(address);
	struct block block = blocks_unpack(*word);

	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	return block;
}
#endif
