/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers: what an allocation or a free does to the counters of site, slot and process, where it is not the ordinary case: that is in
 * hooks/allocation.h and hooks/free.h.
 *
 * The state at the peak without a trace: site counters keep their live values as of the moment the current epoch began.
 * While the total is above every earlier one ("rising") nothing has to be saved: the peak is now. The first decrease
 * ends that and begins an epoch, which is that peak; they are saved before their first change in an epoch.
 *
 * A slot reports its live bytes to the process only when they leave [floor, ceiling], so that threads which take and free
 * their own blocks write no common cache line. With one slot the limits are set so that the peak is exact. With several
 * (account.c) they are as wide as the distance to the peak allows; the bound of the error is kept beside the peak. */
#ifndef RECORDER_COUNTERS_ACCOUNT_H
#define RECORDER_COUNTERS_ACCOUNT_H

#include "recorder/arch/arch.h"
#include "recorder/memory.h"
#include "recorder/slot.h"

/* A new slot. */
void account_join(struct slot *slot);
void account_reset(void);
void account_recover(struct slot *slot);

/* After an allocation: the slot's live bytes are above its ceiling. */
void account_above(struct slot *slot);
/* Before a free of `size`: they will be below its floor. */
void account_below(struct slot *slot, uint64_t size);

/* Every operation of every slot is exact, one after the other: more than one slot, and requested. */
extern HIDDEN bool account_serial;
void account_add_serial(struct slot *slot, struct live_site_counters *counters, uint64_t size,
			uint64_t weight);
void account_remove_serial(struct slot *slot, struct live_site_counters *counters, uint64_t size,
			   uint64_t weight);

/* Units of LIVE_POOL; 0: no memory, which is counted. */
uint32_t account_pool(uint64_t units);

/* A call whose size is not the counters' first_size: the first one, or one of several sizes. */
void account_size(struct live_site_counters *counters, uint64_t size, uint64_t weight);
/* A block that lived at least one tick of the clock. */
void account_lifetime(struct live_site_counters *counters, uint64_t birth_ms, uint64_t weight);

/* A realloc that had a block: counted at the site of the new one. */
void account_realloc(struct live_site_counters *counters, uint64_t old_size, uint64_t new_size,
		     bool moved, uint64_t weight);

static ALWAYS_INLINE void account_save(struct live_site_counters *counters, uint32_t state)
{
	uint32_t epoch = state >> 1;

	if (UNLIKELY(counters->epoch != epoch)) {
		counters->peak_bytes = (int64_t)(counters->bytes - counters->freed_bytes);
		counters->peak_blocks = (int32_t)(counters->calls - counters->frees);
		__atomic_store_n(&counters->epoch, epoch, __ATOMIC_RELEASE);
	}
}

static ALWAYS_INLINE int64_t account_live(const struct live_slot *live)
{
	return (int64_t)(live->bytes - live->freed_bytes);
}
#endif
