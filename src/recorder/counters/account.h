/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers: what an allocation or a free does to record, slot and process.
 *
 * The state at the peak without a trace: each record keeps its live values as of the moment the current epoch began.
 * While the total is above every earlier one ("rising") nothing has to be saved: the peak is now. The first decrease
 * ends that and begins an epoch, which is that peak; a record is saved before its first change in an epoch.
 *
 * A slot tells the process of its live bytes only when they leave [floor, ceiling], so that threads which take and free
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

/* Every operation of every slot is exact, one after the other: more than one slot, and asked for. */
extern HIDDEN bool account_serial;
void account_add_serial(struct slot *slot, struct live_record *record, uint64_t size,
			uint64_t times);
void account_remove_serial(struct slot *slot, struct live_record *record, uint64_t size,
			   uint64_t times);

/* Units of LIVE_POOL; 0: no memory, which is counted. */
uint32_t account_pool(uint64_t units);

/* A call whose size is not the record's first_size: the first one, or one of several sizes. */
void account_size(struct live_record *record, uint64_t size, uint64_t times);
/* A block that lived at least one tick of the clock. */
void account_lifetime(struct live_record *record, uint64_t birth_ms, uint64_t times);

/* A realloc that had a block: counted at the record of the new one. */
void account_realloc(struct live_record *record, uint64_t old_size, uint64_t new_size, bool moved,
		     uint64_t times);

static ALWAYS_INLINE void account_save(struct live_record *record, uint32_t state)
{
	uint32_t epoch = state >> 1;

	if (UNLIKELY(record->epoch != epoch)) {
		record->peak_bytes = (int64_t)(record->bytes - record->freed_bytes);
		record->peak_blocks = (int32_t)(record->calls - record->frees);
		__atomic_store_n(&record->epoch, epoch, __ATOMIC_RELEASE);
	}
}

/* Counters have one writer; readers elsewhere see whole words. */
static ALWAYS_INLINE void count(uint64_t *counter, uint64_t by)
{
#ifndef __SANITIZE_THREAD__ /* which does not see into this */
	arch_add(counter, by);
#else
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
#endif
}

static ALWAYS_INLINE void account_record_add(struct live_record *record, uint64_t size,
					     uint64_t times)
{
	count(&record->calls, times);
	count(&record->bytes, size * times);
	uint64_t live = record->bytes - record->freed_bytes;

	if ((int64_t)live > (int64_t)record->max_bytes)
		record->max_bytes = live;
}

static ALWAYS_INLINE int64_t account_live(const struct live_slot *live)
{
	return (int64_t)(live->bytes - live->freed_bytes);
}

/* The totals that peak and live values come from. */
static ALWAYS_INLINE void account_add(struct slot *slot, struct live_record *record, uint64_t size,
				      uint64_t times)
{
	uint32_t state = __atomic_load_n(&memory.head->peak.state, __ATOMIC_RELAXED);

	if (!(state & 1))
		account_save(record, state);
	account_record_add(record, size, times);
	struct live_slot *live = slot->live;

	count(&live->calls, times);
	count(&live->bytes, size * times);
	if (UNLIKELY(account_live(live) > __atomic_load_n(&slot->ceiling, __ATOMIC_RELAXED)))
		account_above(slot);
}

static ALWAYS_INLINE void account_remove(struct slot *slot, struct live_record *record,
					 uint64_t size, uint64_t times)
{
	struct live_slot *live = slot->live;

	if (UNLIKELY(account_live(live) - (int64_t)(size * times) <
		     __atomic_load_n(&slot->floor, __ATOMIC_RELAXED)))
		account_below(slot, size * times);
	uint32_t state = __atomic_load_n(&memory.head->peak.state, __ATOMIC_RELAXED);

	if (!(state & 1))
		account_save(record, state);
	count(&record->frees, times);
	count(&record->freed_bytes, size * times);
	count(&live->frees, times);
	count(&live->freed_bytes, size * times);
}

/* times: how many blocks this one stands for, 1 unless it is a sample.
 * Details come after the totals that they are parts of: a hook may be left at any instruction (siglongjmp), and a
 * reader looks at any. */
static ALWAYS_INLINE void account_alloc(struct slot *slot, struct live_record *record,
					uint64_t size, uint64_t slack, uint64_t times)
{
	if (UNLIKELY(account_serial))
		account_add_serial(slot, record, size, times);
	else
		account_add(slot, record, size, times);
	if (UNLIKELY(record->first_size != size))
		account_size(record, size, times);
	count(&record->slack, slack * times);
	count(&slot->live->slack, slack * times);
}

static ALWAYS_INLINE void account_free(struct slot *slot, struct live_record *record, uint64_t size,
				       uint64_t slack, uint64_t birth_ms, bool temporary,
				       uint64_t times)
{
	if (UNLIKELY(account_serial))
		account_remove_serial(slot, record, size, times);
	else
		account_remove(slot, record, size, times);
	if (UNLIKELY(birth_ms != clock_ms()))
		account_lifetime(record, birth_ms, times);
	count(&record->freed_slack, slack * times);
	count(&slot->live->freed_slack, slack * times);
	if (temporary) {
		count(&record->temporary, times);
		count(&slot->live->temporary, times);
	}
}
#endif
