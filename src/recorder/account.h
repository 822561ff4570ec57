/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers: what an allocation or a free does to record, slot and process.
 *
 * The state at the peak without a trace: each record keeps its live values as of the moment the current epoch began.
 * While the total is above every earlier one ("rising") nothing has to be saved: the peak is now. The first decrease
 * ends that and begins an epoch, which is that peak; a record is saved before its first change in an epoch.
 *
 * With one slot its thread does this alone, exactly, and the total is what that slot holds. With several, slots hold back up to `batch` bytes each, so that
 * no cache line is written by all; the bound of the error is kept beside the peak. */
#ifndef RECORDER_ACCOUNT_H
#define RECORDER_ACCOUNT_H

#include "recorder/memory.h"
#include "recorder/slot.h"

/* A second slot exists from now on, or one more. */
void account_share(struct slot *slot);
void account_reset(void);
void account_recover(struct slot *slot);

/* The first slot, once it sees that there are others: what account_share took of its bytes is not its any more. */
void account_settle(struct slot *slot);

/* The shared total, for a slot whose held-back bytes reached the batch. */
void account_flush(struct slot *slot);
/* An operation as large as a batch: everything under the lock. sign: 1 allocation, -1 free. */
void account_large(struct slot *slot, struct live_record *record, uint64_t size, int sign);

/* A call whose size is not the record's first_size: the first one, or one of several sizes. */
void account_size(struct live_record *record, uint64_t size);
/* A block that lived at least one tick of the clock. */
void account_lifetime(struct live_record *record, uint32_t birth_code);

/* A realloc that had a block: counted at the record of the new one. */
void account_realloc(struct live_record *record, uint64_t old_size, uint64_t new_size, bool moved);

static ALWAYS_INLINE void account_save(struct live_record *record, uint32_t state)
{
	uint32_t epoch = state >> 1;

	if (UNLIKELY(record->epoch != epoch)) {
		record->peak_bytes = (int64_t)(record->bytes - record->freed_bytes);
		record->peak_blocks = (int32_t)(record->calls - record->frees);
		__atomic_store_n(&record->epoch, epoch, __ATOMIC_RELEASE);
	}
}

/* Counters have one writer; readers elsewhere see whole words. One instruction, in the order of the program: a compiler
 * makes three of a relaxed atomic load and store, and moves plain ones about. */
static ALWAYS_INLINE void count(uint64_t *counter, uint64_t by)
{
#ifdef __x86_64__
	__asm__ volatile("addq %1, %0" : "+m"(*counter) : "er"(by) : "cc");
#else
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
#endif
}

static ALWAYS_INLINE void account_record_add(struct live_record *record, uint64_t size)
{
	count(&record->calls, 1);
	count(&record->bytes, size);
	uint64_t live = record->bytes - record->freed_bytes;

	if ((int64_t)live > (int64_t)record->max_bytes)
		record->max_bytes = live;
}

/* The totals that peak and live values come from. */
static ALWAYS_INLINE void account_add(struct slot *slot, struct live_record *record, uint64_t size)
{
	struct live_peak *peak = &memory.head->peak;
	uint32_t state = __atomic_load_n(&peak->state, __ATOMIC_RELAXED);

	if (LIKELY(!peak->shared)) {
		if (!(state & 1))
			account_save(record, state);
		account_record_add(record, size);
		int64_t total = slot->live->unflushed_bytes + (int64_t)size;

		slot->live->unflushed_bytes = total;
		if (total > peak->peak_bytes) {
			peak->peak_bytes = total;
			peak->peak_ms = clock_ms();
			if (!(state & 1))
				__atomic_store_n(&peak->state, state | 1, __ATOMIC_RELAXED);
		}
		return;
	}
	if (UNLIKELY(slot->lends))
		account_settle(slot);
	if (UNLIKELY(size >= peak->batch_bytes)) {
		account_large(slot, record, size, 1);
		return;
	}
	if (!(state & 1))
		account_save(record, state);
	account_record_add(record, size);
	slot->live->unflushed_bytes += (int64_t)size;
	if (UNLIKELY(slot->live->unflushed_bytes >= (int64_t)peak->batch_bytes))
		account_flush(slot);
}

static ALWAYS_INLINE void account_remove(struct slot *slot, struct live_record *record,
					 uint64_t size)
{
	struct live_peak *peak = &memory.head->peak;
	uint32_t state = __atomic_load_n(&peak->state, __ATOMIC_RELAXED);

	if (LIKELY(!peak->shared)) {
		if (state & 1) {
			state = (state | 1) + 1; /* the next epoch, not rising */
			__atomic_store_n(&peak->state, state, __ATOMIC_RELAXED);
		}
		account_save(record, state);
		count(&record->frees, 1);
		count(&record->freed_bytes, size);
		slot->live->unflushed_bytes -= (int64_t)size;
		return;
	}
	if (UNLIKELY(slot->lends))
		account_settle(slot);
	if (UNLIKELY(size >= peak->batch_bytes)) {
		account_large(slot, record, size, -1);
		return;
	}
	if (!(state & 1))
		account_save(record, state);
	count(&record->frees, 1);
	count(&record->freed_bytes, size);
	slot->live->unflushed_bytes -= (int64_t)size;
	if (UNLIKELY(-slot->live->unflushed_bytes >= (int64_t)peak->batch_bytes))
		account_flush(slot);
}

/* Details come after the totals that they are parts of: a hook may be left at any instruction (siglongjmp), and a
 * reader looks at any. */
static ALWAYS_INLINE void account_alloc(struct slot *slot, struct live_record *record,
					uint64_t size, uint64_t slack)
{
	struct live_slot *live = slot->live;

	count(&live->calls, 1);
	count(&live->bytes, size);
	account_add(slot, record, size);
	if (UNLIKELY(record->first_size != size))
		account_size(record, size);
	count(&record->slack, slack);
	count(&live->slack, slack);
}

static ALWAYS_INLINE void account_free(struct slot *slot, struct live_record *record, uint64_t size,
				       uint64_t slack, uint32_t birth_code, bool temporary)
{
	struct live_slot *live = slot->live;

	count(&live->frees, 1);
	count(&live->freed_bytes, size);
	account_remove(slot, record, size);
	if (UNLIKELY(birth_code != clock_birth()))
		account_lifetime(record, birth_code);
	count(&record->freed_slack, slack);
	count(&live->freed_slack, slack);
	if (temporary) {
		count(&record->temporary, 1);
		count(&live->temporary, 1);
	}
}
#endif
