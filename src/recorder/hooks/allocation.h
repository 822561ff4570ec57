/* SPDX-License-Identifier: Apache-2.0 */
/* An allocation, from the forwarded call to the last counter: the pieces in the order in which they happen, then the whole. What is
 * here is inlined into every hook; what happens seldom is in allocation.c. */
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

/* ---- the block's size ---- */

/* Usable minus requested; 0 where it is not known. */
static ALWAYS_INLINE uint64_t slack_of(void *block, uint64_t size)
{
	if (LIKELY(next.usable_in_header && libc_header_has_size(block)))
		return libc_header_size(block) - size;
	size_t usable = next.usable != NULL ? next.usable(block) : 0;

	/* An allocator that is still starting may not know its own blocks: tcmalloc says 0. */
	return usable > size ? usable - size : 0;
}

/* ---- its site counters ---- */

/* The slot's site counters of the stack above the hook and of the thread's tag. */
uint32_t counters_of_walk(struct slot *slot, const uintptr_t *frame);
/* The same of an anonymous mapping; 0: it is not to be recorded. */
uint32_t counters_of_map(struct slot *slot, const uintptr_t *frame);
/* The same of a block from a pool; its name is a tag below the thread's. */
uint32_t counters_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name, bool stack);

/* The same, from the stack cache on a hit. */
static ALWAYS_INLINE uint32_t counters_of_stack(struct slot *slot, const uintptr_t *frame)
{
	const struct stack_cache_entry *remembered = stack_cache_find(slot, slot->quick, frame);
	uint32_t id =
		LIKELY(remembered != NULL) ? remembered->counters : counters_of_walk(slot, frame);

	if (CHECKED)
		check_counters(slot, id);
	verify_stack(frame, id, remembered != NULL);
	return id;
}

/* ---- its word in the block map ---- */

/* The word of a small block that is about to be entered: seldom in the cache, and the way there is long. NULL: large or tiny,
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
static ALWAYS_INLINE bool blocks_put_quickly(struct blocks_near *near, uint64_t *word,
					     uintptr_t address, uint32_t counters,
					     uint64_t birth_ms, uint64_t size)
{
	if (UNLIKELY(word == NULL || ORDER_LOAD(*word) != 0))
		return false;
	if (UNLIKELY(birth_ms > LIVE_BIRTH_MASK)) {
		const struct blocks_leaf *leaf = blocks_near_leaf(near, address);

		if (UNLIKELY(leaf->eras == 0))
			return false;
		__atomic_store_n(blocks_era(leaf, word), (uint16_t)live_era(birth_ms),
				 __ATOMIC_RELAXED);
		birth_ms &= LIVE_BIRTH_MASK;
	}
	/* After its era. */
	__atomic_store_n(word,
			 live_small_pack(counters, (uint32_t)size, (uint32_t)birth_ms,
					 live_small_place_of(address)),
			 __ATOMIC_RELEASE);
	return true;
}

/* A block that the map's short way does not take: a large one, the first of its leaf, or one whose entry still holds
 * another, the free of which we did not see. */
void record_put(struct slot *slot, void *block, uint64_t size, uint32_t counters);

/* ---- the counters ---- */

static ALWAYS_INLINE void account_counters_add(struct live_site_counters *counters, uint64_t size,
					       uint64_t weight)
{
	arch_add(&counters->calls, weight);
	arch_add(&counters->bytes, size * weight);
	uint64_t live = counters->bytes - counters->freed_bytes;

	if ((int64_t)live > (int64_t)counters->max_bytes)
		counters->max_bytes = live;
}

/* The totals that peak and live values come from. */
static ALWAYS_INLINE void account_add(struct slot *slot, struct live_site_counters *counters,
				      uint64_t size, uint64_t weight)
{
	uint32_t state = __atomic_load_n(&memory.head->peak.state, __ATOMIC_RELAXED);

	if (!(state & 1))
		account_save(counters, state);
	account_counters_add(counters, size, weight);
	struct live_slot *live = slot->live;

	arch_add(&live->calls, weight);
	arch_add(&live->bytes, size * weight);
	if (UNLIKELY(account_live(live) > __atomic_load_n(&slot->ceiling, __ATOMIC_RELAXED)))
		account_above(slot);
}

/* weight: how many blocks this one stands for, 1 unless it is a sample.
 * Details come after the totals that they are parts of: a hook may be left at any instruction (siglongjmp), and a
 * reader reads any. */
static ALWAYS_INLINE void account_alloc(struct slot *slot, struct live_site_counters *counters,
					uint64_t size, uint64_t slack, uint64_t weight)
{
	if (LIKELY(!account_serial))
		account_add(slot, counters, size, weight);
	else
		account_add_serial(slot, counters, size, weight);
	if (UNLIKELY(counters->first_size != size))
		account_size(counters, size, weight);
	arch_add(&counters->slack, slack * weight);
	arch_add(&slot->live->slack, slack * weight);
}

/* ---- the whole ---- */

/* Enters a new block and returns its site counters. slack: taken while forwarding, since an allocator may allocate then. */
static ALWAYS_INLINE struct live_site_counters *record_block(struct slot *slot, void *block,
							     uint64_t size, uint64_t slack,
							     const uintptr_t *frame)
{
	uint64_t *word = blocks_expect(&slot->near, (uintptr_t)block, size);
	uint32_t id = counters_of_stack(slot, frame);
	struct live_site_counters *counters = memory_counters(id);

	if (UNLIKELY(
		    !blocks_put_quickly(&slot->near, word, (uintptr_t)block, id, clock_ms(), size)))
		record_put(slot, block, size, id);
	account_alloc(slot, counters, size, slack, 1);
	slot->last_block = block;
	return counters;
}

/* What record_new does where the mode is not at exact. */
struct live_site_counters *record_by_mode(struct slot *slot, void *block, uint64_t size,
					  uint64_t slack, const uintptr_t *frame);

/* The same as the mode says; NULL: not at all. */
static ALWAYS_INLINE struct live_site_counters *record_new(struct slot *slot, void *block,
							   uint64_t size, uint64_t slack,
							   const uintptr_t *frame)
{
	ORDER_GETS(block);
	if (mode_is_exact())
		return record_block(slot, block, size, slack, frame);
	return record_by_mode(slot, block, size, slack, frame);
}

/* The whole: the forwarded call has given a block, or NULL. */
static ALWAYS_INLINE void *allocated(struct slot *slot, void *block, size_t size,
				     const uintptr_t *frame)
{
	uint64_t slack = LIKELY(block != NULL) ? slack_of(block, size) : 0;

	hook_record(frame);
	if (LIKELY(block != NULL))
		record_new(slot, block, size, slack, frame);
	hook_leave();
	return block;
}
#endif
