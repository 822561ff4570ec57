/* SPDX-License-Identifier: Apache-2.0 */
/* A call of an allocator that is recorded as a pool, however it was redirected to us. The allocator's own calls of malloc are
 * recorded as usual: no guard is held during the call. Only the outermost of nested calls counts: a calloc that calls its own
 * malloc hands out one block. A block is removed from its pool before the call after which another thread may get it. */
#ifndef RECORDER_API_WRAPPED_H
#define RECORDER_API_WRAPPED_H

#include "recorder/api/pools.h"
#include "recorder/slot.h"

/* The pool of a wrapped allocator. */
struct wrapped_pool {
	const char *name;
	uint64_t handle; /* 0: not created yet */
	bool has_words;	 /* busy, and no other such pool holds its addresses: pool_words.h */
	bool began_late; /* it may free blocks that it handed out before it was recorded */
};

/* True if this call is nested in another one that is still running, i.e. was not left by longjmp or an exception. */
bool wrapped_is_inside(const uintptr_t *frame);
static ALWAYS_INLINE bool wrapped_begin(const uintptr_t *frame)
{
	if (UNLIKELY(thread_state.wrapping != 0) && wrapped_is_inside(frame))
		return false;
	thread_state.wrapping = (uintptr_t)frame;
	return true;
}

static ALWAYS_INLINE void wrapped_end(bool outermost)
{
	if (outermost)
		thread_state.wrapping = 0;
}

/* Records a block that the pool has handed out; returns it. */
void *wrapped_took(struct wrapped_pool *pool, void *block, size_t bytes, const uintptr_t *frame);

/* Records the end of a block that is about to be freed and returns it; address 0: unknown. */
struct pool_block wrapped_gives(struct wrapped_pool *pool, const void *block,
				const uintptr_t *frame);

/* Call after a realloc of any shape, with the result of wrapped_gives: if it
 * failed, the block is recorded again. Returns the new block. */
void *wrapped_moved(struct wrapped_pool *pool, struct pool_block old, bool had_block, void *block,
		    size_t size, const uintptr_t *frame);
#endif
