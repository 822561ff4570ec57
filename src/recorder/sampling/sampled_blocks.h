/* SPDX-License-Identifier: Apache-2.0 */
/* The index of sampled blocks: address -> site counters, size, birth. They are few and scattered over the address space: a list,
 * and a hash table of its entries. The block map would need a leaf for nearly every MiB of the heap. */
#ifndef RECORDER_SAMPLING_SAMPLED_BLOCKS_H
#define RECORDER_SAMPLING_SAMPLED_BLOCKS_H

#include "recorder/counters/blocks.h"
#include "recorder/slot.h"

/* True if an address is probably a sample. False: certainly not. No lock, any thread, also outside of hooks but for a new
 * child (hook_in_new_child), which unmaps what its parent had. */
bool sampled_blocks_may_have(const void *address);

/* True if the address is a sample. No lock, any thread, inside of a hook. */
bool sampled_blocks_has(uintptr_t address);

/* Inserts a block with its weight. ret_old: as in blocks_put. False: no memory, or could not take the lock. */
bool sampled_blocks_put(struct slot *slot, uintptr_t address, const struct block *block,
			struct block *ret_old);

/* Removes and returns an entry; counters 0 = none. No lock, any thread. */
struct block sampled_blocks_take(uintptr_t address);

void sampled_blocks_reset(void);
void sampled_blocks_recover(struct slot *slot);
#endif
