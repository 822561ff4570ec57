/* SPDX-License-Identifier: Apache-2.0 */
/* Records one allocation, from the forwarded call to the last counter: first the steps in execution order, then the functions that
 * combine them. Everything here is inlined into every hook; the slow paths are in allocation.c. */
#ifndef RECORDER_HOOKS_ALLOCATION_H
#define RECORDER_HOOKS_ALLOCATION_H

#include "recorder/arch/arch.h"
#include "recorder/checks/verify.h"
#include "recorder/counters/account.h"
#include "recorder/counters/blocks.h"
#include "recorder/hooks/hook.h"
#include "recorder/hooks/next.h"
#include "recorder/libc/libc.h"
#include "recorder/order.h"
#include "recorder/sampling/mode.h"
#include "recorder/unwind/stack_cache.h"

/* ---- size ---- */

/* Usable minus requested size; 0 if unknown. */
static ALWAYS_INLINE uint64_t fragmentation_of(void *block, uint64_t size)
{
	if (LIKELY(next.usable_in_header && libc_header_has_size(block)))
		return libc_header_size(block) - size;
	size_t usable = next.usable != NULL ? next.usable(block) : 0;

	/* An allocator that is still initializing may not know its own blocks: tcmalloc returns 0. */
	return usable > size ? usable - size : 0;
}

/* ---- site counters ---- */

/* Returns this slot's site counters for the stack above the hook and the thread's tag. */
uint32_t counters_of_walk(struct slot *slot, const uintptr_t *frame, enum live_entry entry);
/* The same for an anonymous mapping; 0: do not record it. */
uint32_t counters_of_map(struct slot *slot, const uintptr_t *frame);
/* The same for blocks that are freed there; without tags. */
uint32_t counters_of_freeing(struct slot *slot, const uintptr_t *frame);
/* The same for a pool block; the pool's name becomes a tag below the thread's. */
uint32_t counters_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name, bool stack);
uint32_t counters_of_pool_sample(struct slot *slot, const uintptr_t *frame, uint32_t name);

/* The same as counters_of_walk, but tries the stack cache first. */
static ALWAYS_INLINE uint32_t counters_of_stack(struct slot *slot, const uintptr_t *frame,
						enum live_entry entry)
{
	const struct stack_cache_entry *remembered =
		stack_cache_find(slot, slot->fast_cache, frame, entry);
	uint32_t id = LIKELY(remembered != NULL) ? remembered->counters
						 : counters_of_walk(slot, frame, entry);

	if (CHECKED)
		check_counters(slot, id);
	verify_stack(frame, id, remembered != NULL);
	return id;
}

/* ---- block map ---- */

/* Finds and prefetches the map word of a small block that is about to be inserted: it is rarely in the CPU cache. NULL: the block
 * is large or tiny, or its leaf does not exist yet. */
static ALWAYS_INLINE uint64_t *blocks_expect(struct block_cache *cache, uintptr_t address,
					     uint64_t size)
{
	uint64_t *word = NULL;

	if (LIKELY(size - blocks_tiny_limit < blocks_small_span)) {
		word = blocks_small_word(cache, address);
		__builtin_prefetch(word, 1);
	}
	return word;
}

/* Fast path: inserts a small block into an empty word that blocks_expect returned; false: the caller must use blocks_put. */
static ALWAYS_INLINE bool blocks_put_fast(struct block_cache *cache, uint64_t *word,
					  uintptr_t address, uint32_t counters, uint64_t birth_ms,
					  uint64_t size)
{
	if (UNLIKELY(word == NULL || ORDER_LOAD(*word) != 0))
		return false;
	if (UNLIKELY(birth_ms > LIVE_BIRTH_MASK)) {
		const struct blocks_leaf *leaf = block_cache_leaf(cache, address);

		if (UNLIKELY(leaf->eras == 0))
			return false;
		__atomic_store_n(blocks_era(leaf, word), (uint16_t)live_era(birth_ms),
				 __ATOMIC_RELAXED);
		birth_ms &= LIVE_BIRTH_MASK;
	}
	/* Publish the word after its era. */
	__atomic_store_n(word,
			 live_small_pack(counters, (uint32_t)size, (uint32_t)birth_ms,
					 live_small_place_of(address)),
			 __ATOMIC_RELEASE);
	return true;
}

/* Slow path of the block map: a large block, the first block of a leaf, or a
 * word still occupied by a block whose free we missed. */
void record_put(struct slot *slot, void *block, uint64_t size, uint32_t counters);

/* ---- counters ---- */

static ALWAYS_INLINE void account_counters_add(struct live_site_counters *counters, uint64_t size,
					       uint64_t weight)
{
	arch_add(&counters->calls, weight);
	arch_add(&counters->bytes, size * weight);
	uint64_t live = counters->bytes - counters->freed_bytes;

	if ((int64_t)live > (int64_t)counters->max_bytes)
		counters->max_bytes = live;
}

/* Updates the totals that the peak and the live values are computed from. */
static ALWAYS_INLINE void account_add(struct slot *slot, struct live_site_counters *counters,
				      uint64_t size, uint64_t weight)
{
	account_save(counters);
	account_counters_add(counters, size, weight);
	struct live_slot *live = slot->live;

	arch_add(&live->calls, weight);
	arch_add(&live->bytes, size * weight);
	if (UNLIKELY(account_live(live) > __atomic_load_n(&slot->ceiling, __ATOMIC_RELAXED)))
		account_above(slot);
}

/* weight: number of blocks that this one represents, 1 unless it is a sample. Update details after the totals that include them:
 * siglongjmp may abandon a hook at any instruction, and a reader may read at any time. */
static ALWAYS_INLINE void account_alloc(struct slot *slot, struct live_site_counters *counters,
					uint64_t size, uint64_t fragmentation, uint64_t weight)
{
	if (LIKELY(!ORDER_LOAD(account_serial)))
		account_add(slot, counters, size, weight);
	else
		account_add_serial(slot, counters, size, weight);
	if (UNLIKELY(counters->first_size != size))
		account_size(counters, size, weight);
	arch_add(&counters->fragmentation, fragmentation * weight);
	arch_add(&slot->live->fragmentation, fragmentation * weight);
}

/* ---- whole allocation ---- */

/* Inserts a new block and returns its site counters. fragmentation: read under
 * GUARD_FORWARDING, because malloc_usable_size may allocate. */
static ALWAYS_INLINE struct live_site_counters *record_block(struct slot *slot, void *block,
							     uint64_t size, uint64_t fragmentation,
							     const uintptr_t *frame,
							     enum live_entry entry)
{
	uint64_t *word = blocks_expect(&slot->block_cache, (uintptr_t)block, size);
	uint32_t id = counters_of_stack(slot, frame, entry);
	struct live_site_counters *counters = memory_counters(id);

	if (UNLIKELY(!blocks_put_fast(&slot->block_cache, word, (uintptr_t)block, id, clock_ms(),
				      size)))
		record_put(slot, block, size, id);
	account_alloc(slot, counters, size, fragmentation, 1);
	slot->last_block = block;
	return counters;
}

/* record_new for any mode but exact. */
struct live_site_counters *record_by_mode(struct slot *slot, void *block, uint64_t size,
					  uint64_t fragmentation, const uintptr_t *frame,
					  enum live_entry entry);

/* Records a new block according to the recording mode; NULL: not recorded. */
static ALWAYS_INLINE struct live_site_counters *record_new(struct slot *slot, void *block,
							   uint64_t size, uint64_t fragmentation,
							   const uintptr_t *frame,
							   enum live_entry entry)
{
	ORDER_GETS(block);
	if (mode_is_exact())
		return record_block(slot, block, size, fragmentation, frame, entry);
	return record_by_mode(slot, block, size, fragmentation, frame, entry);
}

/* Last step of an allocation hook; block: result of the forwarded call, may be NULL. */
static ALWAYS_INLINE void *allocated(struct slot *slot, void *block, size_t size,
				     const uintptr_t *frame, enum live_entry entry)
{
	uint64_t fragmentation = LIKELY(block != NULL) ? fragmentation_of(block, size) : 0;

	hook_record(frame);
	if (LIKELY(block != NULL))
		record_new(slot, block, size, fragmentation, frame, entry);
	hook_leave();
	return block;
}
#endif
