/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ operators. A block belongs to the program's call of new, with the size that was asked for there: libstdc++
 * turns 0 into 1 and rounds up for alignment before it calls malloc. So the first block that an operator takes from
 * malloc is left to its end: if it is what the operator returns, it is recorded here. Everything else that an operator
 * takes (its own books, an exception) is recorded where it is taken.
 *
 * Deletes jump to the next definition and are recorded in free, until a new has returned what is not from malloc (jemalloc
 * 5.3, tcmalloc, mimalloc, pools): such blocks end in the operator. A pool may take its memory from malloc, or an operator
 * put a header before the block: then nothing is recorded here any more, malloc has it all.
 *
 * An exception from the forwarded operator passes through our frame without landing there. Its guard has ended when the
 * malloc inside failed or another was called (hook.c), or is found out by the next hook. */
#include "recorder/hooks/operators.h"

#include "recorder/hooks/free.h"
#include "recorder/sampling/sampled_blocks.h"

/* What is known of the operators by what they returned. Only ever goes on; relaxed: whoever gets a block from another
 * thread has seen what that thread saw. */
static enum kind {
	MALLOCS, /* always a block that they took from malloc */
	OWN,	 /* some are not */
	PARTS,	 /* some are a part of one that they took from malloc */
} blocks_are;

static void learn(enum kind what)
{
	if (blocks_are < what)
		blocks_are = what;
}

static ALWAYS_INLINE operator_fn *forward_of(int number)
{
	operator_fn *forward = next_operator[number];

	return LIKELY(forward != NULL) ? forward : operators_instead(number);
}

static bool is_part(const void *block, const void *of, uint64_t bytes)
{
	return block > of && (uintptr_t)block - (uintptr_t)of < bytes;
}

/* What an operator has taken and not returned: it threw, or keeps it for itself. */
COLD static void record_taken(struct slot *slot, uint64_t slack, const uintptr_t *frame)
{
	void *taken = thread_state.taken;

	thread_state.taken = NULL;
	record_new(slot, taken, thread_state.taken_bytes, slack, frame);
}

/* Whether an operator returned what no hook inside has recorded. */
static bool is_new(const struct slot *slot, int number, const void *block)
{
	const void *last = slot->last_block;

	if (blocks_find((uintptr_t)block).counters != 0 || sampled_blocks_may_have(block))
		return false;
	if (!operator_of_allocator[number] && last != NULL &&
	    is_part(block, last, blocks_find((uintptr_t)last).size_bytes)) {
		learn(PARTS);
		return false;
	}
	return true;
}

/* The end of new where it is not the ordinary one. Under the hook's guard. */
NOINLINE static void *new_end(struct slot *slot, int number, void *block, uint64_t size,
			      const uintptr_t *frame)
{
	void *taken = thread_state.taken;
	bool is_taken = block == taken;
	uint64_t taken_slack = taken != NULL ? slack_of(taken, thread_state.taken_bytes) : 0;
	uint64_t slack = block != NULL && (is_taken || operator_of_allocator[number])
				 ? slack_of(block, size)
				 : 0;

	hook_record(frame);
	if (taken != NULL && !is_taken)
		record_taken(slot, taken_slack, frame);
	thread_state.taken = NULL;
	if (block != NULL && is_new(slot, number, block)) {
		if (!is_taken)
			learn(OWN);
		record_new(slot, block, size, slack, frame);
	}
	hook_leave();
	return block;
}

static ALWAYS_INLINE void *new_common(int number, uintptr_t size, uintptr_t b, uintptr_t c,
				      const uintptr_t *frame)
{
	operator_fn *forward = forward_of(number);

	if (UNLIKELY(blocks_are == PARTS))
		return forward(size, b, c);
	if (blocks_are == MALLOCS ? countdown_would_pass(size) : countdown_passes(size))
		return forward(size, b, c);
	struct slot *slot = hook_enter(frame);
	uintptr_t guard = (uintptr_t)frame | GUARD_FORWARDING | GUARD_NESTS;

	if (UNLIKELY(slot == NULL))
		return forward(size, b, c);
	if (UNLIKELY(thread_state.taken != NULL)) /* of an operator that is not over, or threw */
		record_taken(slot, 0, frame);
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
	uint64_t slack = slack_of(block, size);

	hook_record(frame);
	thread_state.taken = NULL;
	record_new(slot, block, size, slack, frame);
	hook_leave();
	return block;
}

/* The block leaves the map before its memory may be another thread's. If the operator hands it to free, it is accounted
 * for there, as one of malloc's; else here. */
static void *delete_pooled(operator_fn *forward, uintptr_t block, uintptr_t b, uintptr_t c,
			   const uintptr_t *frame, struct slot *slot)
{
	struct block entry = blocks_take(&slot->near, block),
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
	struct slot *slot = block != 0 ? hook_enter(frame) : NULL;

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
/* The jump in the ordinary case is a tail call: the operator's frame takes the place of ours. */
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
