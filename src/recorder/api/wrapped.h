/* SPDX-License-Identifier: Apache-2.0 */
/* A call of an allocator that is recorded as a pool, whoever turned it to us. What that allocator itself takes from malloc is
 * recorded as always: no guard is held over the call. Only the outermost of nested calls counts: a calloc that calls its own malloc
 * gives out one block. A block leaves its pool before the call that may give it to another thread. */
#ifndef RECORDER_API_WRAPPED_H
#define RECORDER_API_WRAPPED_H

#include "recorder/api/pools.h"

/* Where a call finds its pool. */
struct wrapped_pool {
	const char *name;
	uint64_t handle; /* 0: it is not made yet */
	bool began_late; /* it may be asked for blocks that it gave out before it was recorded */
};

/* Whether this is no call inside another one. One that was left by longjmp or an exception is over. */
bool wrapped_begin(const uintptr_t *frame);
void wrapped_end(bool outermost);

/* The pool has given out a block, which is returned. */
void *wrapped_took(struct wrapped_pool *pool, void *block, size_t bytes, const uintptr_t *frame);

/* The block that is about to be given back; address 0: not known. */
struct pool_block wrapped_gives(struct wrapped_pool *pool, const void *block,
				const uintptr_t *frame);

/* After a realloc of any shape, of what wrapped_gives said: if it failed, the block is still there. Returns the new one. */
void *wrapped_moved(struct wrapped_pool *pool, struct pool_block old, bool had_block, void *block,
		    size_t size, const uintptr_t *frame);
#endif
