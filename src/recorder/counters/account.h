/* SPDX-License-Identifier: Apache-2.0 */
/* Updates the counters of site, slot and process on an allocation or a free: the slow paths. The fast paths are in
 * hooks/allocation.h and hooks/free.h.
 *
 * The state at the peak, without a trace: site counters save their live values as of the start of the current epoch. While the
 * total is above all earlier totals ("rising"), nothing needs saving: the peak is now. The first decrease ends the rise and starts
 * an epoch, which represents that peak; in each epoch, counters are saved before their first change.
 *
 * A slot publishes its live bytes to the process only when they leave [floor, ceiling], so that threads which allocate and free their
 * own blocks write no shared cache line. With one slot the limits are set so that the peak is exact. With several (account.c) they
 * are as wide as the distance to the peak allows; the error bound is stored beside the peak. */
#ifndef RECORDER_COUNTERS_ACCOUNT_H
#define RECORDER_COUNTERS_ACCOUNT_H

#include "recorder/arch/arch.h"
#include "recorder/memory.h"
#include "recorder/slot.h"

/* Adds a new slot. */
void account_join(struct slot *slot);
void account_reset(void);
void account_recover(struct slot *slot);

/* Call after an allocation that lifts the slot's live bytes above its ceiling. */
void account_above(struct slot *slot);
/* Call before a free of `size` that takes them below its floor. */
void account_below(struct slot *slot, uint64_t size);

/* Serializes all operations of all slots, so that each is exact: if requested, and there is more than one slot. */
extern HIDDEN bool account_serial;
void account_add_serial(struct slot *slot, struct live_site_counters *counters, uint64_t size,
			uint64_t weight);
void account_remove_serial(struct slot *slot, struct live_site_counters *counters, uint64_t size,
			   uint64_t weight);

/* Allocates units of LIVE_POOL; 0: no memory, which is counted. */
uint32_t account_pool(uint64_t units);
/* The same for optional details of that many bytes: does not use the reserve, which is for site counters. */
uint32_t account_details(uint64_t bytes);

/* Counts a call whose size is not the counters' first_size: the first call, or a site with several sizes. */
void account_size(struct live_site_counters *counters, uint64_t size, uint64_t weight);
/* Counts the lifetime of a block that lived for at least one clock tick. */
void account_lifetime(struct live_site_counters *counters, uint64_t birth_ms, uint64_t weight);
/* The same for a block of the heap, together with its size. */
void account_block_lifetime(struct slot *slot, struct live_site_counters *counters, uint64_t size,
			    uint64_t birth_ms, uint64_t weight);

/* Counts a realloc of an existing block at the new block's site. slot: NULL unless it is of the heap. */
void account_realloc(struct slot *slot, struct live_site_counters *counters, uint64_t old_size,
		     uint64_t new_size, bool moved, uint64_t weight);

/* Call before counters of any kind change. */
static ALWAYS_INLINE void account_save(struct live_site_counters *counters)
{
	uint32_t state = __atomic_load_n(&memory.head->peak.state, __ATOMIC_RELAXED);
	uint32_t epoch = state >> 1;

	if (!(state & 1) && UNLIKELY(counters->epoch != epoch)) {
		counters->peak_bytes = (int64_t)(counters->bytes - counters->freed_bytes);
		counters->peak_blocks = (int32_t)(counters->calls - counters->frees);
		__atomic_store_n(&counters->epoch, epoch, __ATOMIC_RELEASE);
		/* The epoch becomes visible before the change that follows: readers load the counters first. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
	}
}

static ALWAYS_INLINE int64_t account_live(const struct live_slot *live)
{
	return (int64_t)(live->bytes - live->freed_bytes);
}
#endif
