/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: the program's own allocators, and the blocks that it gets from them. The memory that pools get from malloc or
 * mmap is recorded there as well: pools are a separate layer, whose blocks are never added to those.
 *
 * A pool is a handle: the tag of its name and a number. A forked child does not know the number yet: it recreates the
 * pool, empty, on first use. */
#ifndef RECORDER_API_POOLS_H
#define RECORDER_API_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/live/live.h"

struct slot;

/* A block that is or was in a pool; counters 0 = unknown address. */
struct pool_block {
	uintptr_t address;
	uint64_t bytes : 63, rounded_up : 1; /* a sample whose weight was rounded up */
	uint64_t counters : LIVE_SMALL_COUNTERS_BITS, birth_ms : 64 - LIVE_SMALL_COUNTERS_BITS;
};

void pools_reset(void);
void pools_recover(struct slot *slot);

/* Creates a pool; 0: no memory, which is counted. has_words: see pool_words.h. Inside a hook. */
uint64_t pools_make(struct slot *slot, const char *name, bool has_words);
/* Records a block that the pool has handed out; `frame` is the hook's. Returns its site counters, or 0: not recorded. */
uint32_t pools_add(struct slot *slot, uint64_t pool, uintptr_t address, uint64_t bytes,
		   const uintptr_t *frame);
/* Removes a block from the pool without counting it; pools_end_block does that.
 * may_be_unknown: a missing block is not an error. */
struct pool_block pools_take(struct slot *slot, uint64_t pool, uintptr_t address,
			     bool may_be_unknown);
void pools_end_block(struct slot *slot, uint64_t pool, const struct pool_block *block);
/* Records the new address or size of a block that was removed, and may have been counted as ended already (counters 0). */
void pools_moved(struct slot *slot, uint64_t pool, const struct pool_block *old, uintptr_t address,
		 uint64_t bytes, const uintptr_t *frame);

#define POOL_HAS_WORDS                                                                             \
	UINT32_C(0x80000000) /* in a handle: its small blocks have words, pool_words.h */
/* The handle, or 0 (none) for one that a program cannot have: it would skip the checks of a handle. */
static inline uint64_t pools_given(uint64_t handle)
{
	return handle & POOL_HAS_WORDS ? 0 : handle;
}

/* Enters a hook of a pool; NULL: nothing can be recorded. Pair it with hook_leave. */
struct slot *pools_begin(const uintptr_t *frame);

/* Called by programs. */
uint64_t pool_new(const char *name);
void pool_alloc(uint64_t pool, const void *address, size_t bytes);
void pool_resize(uint64_t pool, const void *old, const void *address, size_t bytes);
void pool_free(uint64_t pool, const void *address);
void pool_clear(uint64_t pool, int end);
#endif
