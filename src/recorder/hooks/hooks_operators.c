/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ operators. A block is attributed to the program's call of new, with the size requested there: libstdc++ turns 0
 * into 1 and rounds up for alignment before it calls malloc. So the first block that an operator gets from malloc stays
 * pending until the operator returns; if it is the operator's result, it is recorded here. All other allocations inside an
 * operator (its bookkeeping, an exception) are recorded as they happen.
 *
 * Deletes jump to the next definition and are recorded in free, until some new returns a block that is not from malloc
 * (jemalloc 5.3, tcmalloc, mimalloc, pools): from then on such blocks end in operator delete. If a pool carves blocks out
 * of malloc memory, or an operator puts a header before the block, nothing more is recorded here: malloc records it all.
 *
 * An exception from the forwarded operator unwinds through our frame without a landing pad. Its guard ended when the inner
 * malloc failed or another one was called (hook.c); otherwise the next hook detects it. */
#include "recorder/hooks/operators.h"

#include "recorder/hooks/free.h"
#include "recorder/sampling/sampled_blocks.h"

/* What the operators' results have shown so far. Only ever increases. Relaxed: a thread that gets a block from another has
 * seen what that thread saw. */
static enum kind {
	MALLOCS, /* always blocks from malloc */
	OWN,	 /* some are not from malloc */
	PARTS,	 /* some lie inside a block from malloc */
	HOOKED,	 /* from a malloc that does not pass through us, and that calls our hooks */
} blocks_are;

static void learn(enum kind what)
{
	enum kind seen = __atomic_load_n(&blocks_are, __ATOMIC_RELAXED);

	while (seen < what && !__atomic_compare_exchange_n(&blocks_are, &seen, what, true,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void operators_leave_to_malloc(void)
{
	learn(HOOKED);
}

static ALWAYS_INLINE operator_fn *forward_of(int number)
{
	operator_fn *forward = next_operator[number];

	return LIKELY(forward != NULL) ? forward : operators_instead(number);
}

static ALWAYS_INLINE enum live_entry entry_of(int number)
{
	return number % 2 ? LIVE_ENTRY_NEW_ARRAY : LIVE_ENTRY_NEW;
}

static bool is_part(const void *block, const void *of, uint64_t bytes)
{
	return block > of && (uintptr_t)block - (uintptr_t)of < bytes;
}

/* Records the pending block of an operator that did not return it: it threw, or keeps the block for itself. */
COLD static void record_pending_new(struct slot *slot, uint64_t fragmentation,
				    const uintptr_t *frame, enum live_entry entry)
{
	void *taken = thread_state.taken;

	thread_state.taken = NULL;
	record_new(slot, taken, thread_state.taken_bytes, fragmentation, frame, entry);
}

/* True if no inner hook has recorded the operator's result. */
static bool is_new(const struct slot *slot, int number, const void *block)
{
	const void *last = slot->last_block;

	if (blocks_find((uintptr_t)block).counters != 0 || sampled_blocks_has((uintptr_t)block))
		return false;
	if (!operator_of_allocator[number] && last != NULL &&
	    is_part(block, last, blocks_find((uintptr_t)last).size_bytes)) {
		learn(PARTS);
		return false;
	}
	return true;
}

/* Slow path at the end of new. Runs under the hook's guard. */
NOINLINE static void *new_end(struct slot *slot, int number, void *block, uint64_t size,
			      const uintptr_t *frame)
{
	void *taken = thread_state.taken;
	bool is_taken = block == taken;
	uint64_t pending_fragmentation =
		taken != NULL ? fragmentation_of(taken, thread_state.taken_bytes) : 0;
	uint64_t fragmentation = block != NULL && (is_taken || operator_of_allocator[number])
					 ? fragmentation_of(block, size)
					 : 0;

	hook_record(frame);
	if (taken != NULL && !is_taken)
		record_pending_new(slot, pending_fragmentation, frame, entry_of(number));
	thread_state.taken = NULL;
	if (block != NULL && is_new(slot, number, block)) {
		if (!is_taken)
			learn(OWN);
		record_new(slot, block, size, fragmentation, frame, entry_of(number));
	}
	hook_leave();
	return block;
}

static ALWAYS_INLINE void *new_common(int number, uintptr_t size, uintptr_t b, uintptr_t c,
				      const uintptr_t *frame)
{
	operator_fn *forward = forward_of(number);

	if (UNLIKELY(blocks_are >= PARTS))
		return forward(size, b, c);
	if (blocks_are == MALLOCS ? countdown_would_pass(size) : countdown_passes(size))
		return forward(size, b, c);
	struct slot *slot = hook_enter(frame);
	uintptr_t guard = (uintptr_t)frame | GUARD_FORWARDING | GUARD_NESTS;

	if (UNLIKELY(slot == NULL))
		return forward(size, b, c);
	if (UNLIKELY(thread_state.taken != NULL)) /* of an outer operator, or one that threw */
		record_pending_new(slot, 0, frame, LIVE_ENTRY_UNKNOWN);
	hook_guard(guard);
	void *block = forward(size, b, c);

	if (UNLIKELY(thread_state.guard != guard)) {
		slot = hook_enter(frame);
		return slot != NULL ? new_end(slot, number, block, size, frame) : block;
	}
	if (UNLIKELY(block == NULL || (block != thread_state.taken &&
				       (blocks_are == MALLOCS || thread_state.taken != NULL ||
					!operator_of_allocator[number]))))
		return new_end(slot, number, block, size, frame);
	uint64_t fragmentation = fragmentation_of(block, size);

	hook_record(frame);
	thread_state.taken = NULL;
	record_new(slot, block, size, fragmentation, frame, entry_of(number));
	hook_leave();
	return block;
}

/* Removes the block from the map before another thread may get its memory. If the operator passes it to free, the free
 * accounts for it; else this function does. */
static void *delete_pooled(operator_fn *forward, uintptr_t block, uintptr_t b, uintptr_t c,
			   const uintptr_t *frame, struct slot *slot)
{
	struct block entry = blocks_take(&slot->block_cache, block),
		     outer_entry = thread_state.deleted_entry;
	void *outer = thread_state.deleted;
	bool temporary = slot->last_block == (void *)block;

	if (entry.counters == 0) {
		if (!record_free_sample(slot, (void *)block) && blocks_are != PARTS)
			record_unknown_free((void *)block);
		hook_leave();
		return forward(block, b, c);
	}
	thread_state.deleted = (void *)block;
	thread_state.deleted_entry = entry;
	hook_leave();
	forward(block, b, c);
	entry = thread_state.deleted_entry;
	thread_state.deleted = outer;
	thread_state.deleted_entry = outer_entry;
	slot = entry.counters != 0 ? hook_enter(frame) : NULL;
	if (slot == NULL)
		return NULL;
	hook_record(frame);
	record_ended(slot, (void *)block, &entry, 0, temporary);
	hook_leave();
	return NULL;
}

NOINLINE static void *delete_recorded(int number, uintptr_t block, uintptr_t b, uintptr_t c,
				      const uintptr_t *frame)
{
	operator_fn *forward = forward_of(number);
	struct slot *slot = block != 0 && blocks_are != HOOKED ? hook_enter(frame) : NULL;

	if (slot == NULL)
		return forward(block, b, c);
	hook_record(frame);
	if (!operator_of_allocator[number])
		return delete_pooled(forward, block, b, c, frame, slot);
	record_free(slot, (void *)block, frame);
	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	forward(block, b, c);
	hook_leave();
	return NULL;
}

#define DEFINE_NEW(number, symbol)                                                                 \
	EXPORT __attribute__((section(OPERATOR_SECTION))) void *operator_##number(                 \
		uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);                            \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                             \
	{                                                                                          \
		return new_common(number, a, b, c, HOOK_FRAME());                                  \
	}
/* The forwarding jump is a tail call: the operator's frame replaces ours. */
#define DEFINE_DELETE(number, symbol)                                                              \
	EXPORT void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);     \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                             \
	{                                                                                          \
		if (UNLIKELY(blocks_are != MALLOCS))                                               \
			return delete_recorded(number, a, b, c, HOOK_FRAME());                     \
		return forward_of(number)(a, b, c);                                                \
	}
NEW_OPERATORS(DEFINE_NEW)
DELETE_OPERATORS(DEFINE_DELETE)
