/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that are samples: address -> site counters, size, birth. Few, anywhere in the address space: a list of them, and a hash
 * table that leads there. The block map would take a leaf for nearly every MiB of the heap. */
#ifndef RECORDER_SAMPLING_SAMPLED_BLOCKS_H
#define RECORDER_SAMPLING_SAMPLED_BLOCKS_H

#include "recorder/counters/blocks.h"
#include "recorder/slot.h"

/* Whether an address is almost certainly one, or perhaps. False: certainly not. No lock, any thread, outside of hooks too. */
bool sampled_blocks_may_have(const void *address);

/* Enters a block with its weight. ret_old: as blocks_put. False: no memory, or the lock could not be taken. */
bool sampled_blocks_put(struct slot *slot, uintptr_t address, const struct block *block,
			struct block *ret_old);

/* Removes and returns an entry; counters 0 = none. No lock, any thread. */
struct block sampled_blocks_take(uintptr_t address);

void sampled_blocks_reset(void);
void sampled_blocks_recover(struct slot *slot);
#endif
