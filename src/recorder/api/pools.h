/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: allocators of the program's own, and the blocks that it takes from them. What they take in turn from malloc or
 * mmap is recorded there as well: pools are a layer of their own, whose blocks are never added to those.
 *
 * A pool is a handle: the tag of its name and a number. The number is what a fork's child does not know yet: it makes the
 * pool anew, empty, when it is first used there. */
#ifndef RECORDER_API_POOLS_H
#define RECORDER_API_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/live/live.h"

struct slot;

/* A block that a pool has or had; counters 0 = the address is not known there. */
struct pool_block {
	uintptr_t address;
	uint64_t bytes : 63,
		rounded_up : 1; /* a sample: it stands for one block more than its weight */
	uint64_t counters : LIVE_SMALL_COUNTERS_BITS, birth_ms : 64 - LIVE_SMALL_COUNTERS_BITS;
};

void pools_reset(void);
void pools_recover(struct slot *slot);

/* Inside a hook. A new pool; 0: no memory, which is counted. */
uint64_t pools_make(struct slot *slot, const char *name);
/* The pool has given out a block; `frame` is the hook's. Returns its site counters, or 0: it is not recorded. */
uint32_t pools_add(struct slot *slot, uint64_t pool, uintptr_t address, uint64_t bytes,
		   const uintptr_t *frame);
/* Takes a block out of the pool without counting it: then it ends. may_be_unknown: it is no fault if it is not there. */
struct pool_block pools_take(struct slot *slot, uint64_t pool, uintptr_t address,
			     bool may_be_unknown);
void pools_end_block(struct slot *slot, uint64_t pool, const struct pool_block *block);
/* The block that was taken out, and may have ended already (counters 0), is now at another place, or of another size. */
void pools_moved(struct slot *slot, uint64_t pool, const struct pool_block *old, uintptr_t address,
		 uint64_t bytes, const uintptr_t *frame);

/* Enters a hook that is about a pool; NULL: nothing can be recorded. hook_leave ends it. */
struct slot *pools_begin(const uintptr_t *frame);

/* What programs call. */
uint64_t pool_new(const char *name);
void pool_alloc(uint64_t pool, const void *address, size_t bytes);
void pool_resize(uint64_t pool, const void *old, const void *address, size_t bytes);
void pool_free(uint64_t pool, const void *address);
void pool_clear(uint64_t pool, int end);
#endif
