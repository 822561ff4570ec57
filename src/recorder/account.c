/* SPDX-License-Identifier: Apache-2.0 */
/* The rare parts of accounting: the shared total, distributions, reallocs.
 *
 * Owns: head->peak (under peak_lock once it is shared) and the pool. Invariant with several slots: peak.total_bytes plus
 * the sum of unflushed_bytes is the live total, and each slot holds back less than batch_bytes. */
#include "recorder/account.h"

#include "recorder/lock.h"

enum { BATCH_MIN = 256, BATCH_MAX = 64 * 1024, PEAK_SHARE = 1024 };

static struct lock peak_lock;
static int64_t
	lent_bytes; /* of the first slot's unflushed_bytes, that the total holds already; under the lock */

void account_reset(void)
{
	peak_lock = (struct lock){ 0 };
	lent_bytes = 0;
}

void account_recover(struct slot *slot)
{
	lock_recover(&peak_lock, slot->id);
}

/* How much a slot may hold back: a small share of the peak. Under the lock. */
static void set_batch(struct live_peak *peak)
{
	uint64_t slots = memory.head->used[LIVE_SLOTS];
	uint64_t batch = (uint64_t)peak->peak_bytes / (PEAK_SHARE * slots);

	batch = MIN(MAX(batch, (uint64_t)BATCH_MIN), (uint64_t)BATCH_MAX);
	if (memory.control->exact_peak)
		batch = 0; /* every operation is a large one */
	__atomic_store_n(&peak->batch_bytes, batch, __ATOMIC_RELAXED);
	/* What the slots hold back when the peak is reached, and when the epoch begins. */
	peak->bound_bytes = 2 * slots * batch;
}

/* Under the lock: the total moves, and with it peak and epoch. */
static void move_total(struct live_peak *peak, int64_t by)
{
	uint32_t state = peak->state;

	peak->total_bytes += by;
	if (peak->total_bytes > peak->peak_bytes) {
		peak->peak_bytes = peak->total_bytes;
		peak->peak_ms = clock_ms();
		set_batch(peak);
		if (!(state & 1))
			__atomic_store_n(&peak->state, state | 1, __ATOMIC_RELAXED);
	} else if (by < 0 && (state & 1)) {
		__atomic_store_n(&peak->state, (state | 1) + 1, __ATOMIC_RELAXED);
	}
}

/* The first slot may be in the middle of an operation and is not waited for: what it holds now goes to the total, and it
 * takes that much off when it comes by. Its own counters it alone writes. */
COLD void account_share(struct slot *slot)
{
	struct live_peak *peak = &memory.head->peak;

	if (!lock_take(&peak_lock, slot->id))
		return;
	set_batch(peak);
	if (!peak->shared) {
		lent_bytes = __atomic_load_n(&memory_slot(0)->unflushed_bytes, __ATOMIC_RELAXED);
		peak->total_bytes = lent_bytes;
		__atomic_store_n(&peak->shared, 1, __ATOMIC_RELEASE);
	}
	lock_give(&peak_lock);
}

COLD void account_settle(struct slot *slot)
{
	if (!lock_take(&peak_lock, slot->id))
		return;
	slot->live->unflushed_bytes -= lent_bytes;
	slot->lends = false;
	lock_give(&peak_lock);
}

NOINLINE void account_flush(struct slot *slot)
{
	struct live_peak *peak = &memory.head->peak;

	if (!lock_take(&peak_lock, slot->id))
		return;
	int64_t by = slot->live->unflushed_bytes;

	slot->live->unflushed_bytes = 0;
	move_total(peak, by);
	lock_give(&peak_lock);
}

NOINLINE void account_large(struct slot *slot, struct live_record *record, uint64_t size, int sign)
{
	struct live_peak *peak = &memory.head->peak;
	int64_t by = slot->live->unflushed_bytes + sign * (int64_t)size;

	if (!lock_take(&peak_lock, slot->id)) { /* the total learns of it with the next one */
		slot->live->unflushed_bytes = by;
		if (sign > 0) {
			account_record_add(record, size);
		} else {
			count(&record->frees, 1);
			count(&record->freed_bytes, size);
		}
		return;
	}

	/* What was held back belongs to the total before this operation: a free then begins the epoch before the
	 * record changes, and an allocation is part of its own peak. */
	if (sign < 0) {
		slot->live->unflushed_bytes = 0;
		move_total(peak, by);
	}
	if (!(peak->state & 1))
		account_save(record, peak->state);
	if (sign > 0) {
		account_record_add(record, size);
		slot->live->unflushed_bytes = 0;
		move_total(peak, by);
	} else {
		count(&record->frees, 1);
		count(&record->freed_bytes, size);
	}
	lock_give(&peak_lock);
}

static uint32_t pool_add(uint64_t units)
{
	uint64_t unit = memory_append(LIVE_POOL, units, LIVE_POOL_UNIT);

	if (unit != UINT64_MAX && unit + units < LIVE_SIZES_MANY)
		return (uint32_t)unit;
	health_add(HEALTH_lost_details);
	return 0;
}

/* More sizes than can be told apart: all go into half octaves. `calls` holds the current call already. */
static void sizes_to_many(struct live_record *record, const struct live_sizes_few *few)
{
	uint32_t unit = pool_add(sizeof(struct live_sizes_many) / LIVE_POOL_UNIT);
	uint64_t first = record->calls - 1;

	if (unit == 0)
		return;
	struct live_sizes_many *many = memory_pool(unit);

	for (uint64_t i = 0; i < few->used; i++) {
		many->count[live_size_bucket(few->entry[i].size)] += few->entry[i].count;
		first -= few->entry[i].count;
	}
	many->count[live_size_bucket(record->first_size)] += first;
	__atomic_store_n(&record->sizes, unit | LIVE_SIZES_MANY, __ATOMIC_RELEASE);
	record->first_size = UINT64_MAX; /* no call has it: from now on all come here */
}

NOINLINE void account_size(struct live_record *record, uint64_t size)
{
	uint32_t ref = record->sizes;

	if (record->calls == 1) {
		record->first_size = size;
		return;
	}
	if (ref == 0) {
		ref = pool_add(sizeof(struct live_sizes_few) / LIVE_POOL_UNIT);
		if (ref == 0)
			return;
		__atomic_store_n(&record->sizes, ref, __ATOMIC_RELEASE);
	}
	if (!(ref & LIVE_SIZES_MANY)) {
		struct live_sizes_few *few = memory_pool(ref);

		for (uint64_t i = 0; i < few->used; i++) {
			if (few->entry[i].size == size) {
				count(&few->entry[i].count, 1);
				return;
			}
		}
		if (few->used < LIVE_FEW_SIZES) {
			few->entry[few->used].size = size;
			few->entry[few->used].count = 1;
			__atomic_store_n(&few->used, few->used + 1, __ATOMIC_RELEASE);
			return;
		}
		sizes_to_many(record, few);
		ref = record->sizes;
		if (!(ref & LIVE_SIZES_MANY))
			return;
	}
	struct live_sizes_many *many = memory_pool(ref & ~LIVE_SIZES_MANY);

	count(&many->count[live_size_bucket(size)], 1);
}

NOINLINE void account_lifetime(struct live_record *record, uint32_t birth_code)
{
	uint64_t born = live_birth_ms(birth_code), now = clock_ms();
	uint64_t lived = now > born ? now - born : 0;

	if (lived == 0)
		return;
	if (record->lifetimes == 0) {
		uint32_t unit = pool_add(sizeof(struct live_lifetimes) / LIVE_POOL_UNIT);

		if (unit == 0)
			return;
		__atomic_store_n(&record->lifetimes, unit, __ATOMIC_RELEASE);
	}
	struct live_lifetimes *lifetimes = memory_pool(record->lifetimes);
	unsigned bucket = 63u - (unsigned)__builtin_clzll(lived);

	count(&lifetimes->sum_ms, lived);
	count(&lifetimes->count[MIN(bucket, (unsigned)LIVE_LIFETIME_BUCKETS - 1)], 1);
}

NOINLINE void account_realloc(struct live_record *record, uint64_t old_size, uint64_t new_size,
			      bool moved)
{
	if (record->reallocs == 0) {
		uint32_t unit = pool_add(sizeof(struct live_reallocs) / LIVE_POOL_UNIT);

		if (unit == 0)
			return;
		__atomic_store_n(&record->reallocs, unit, __ATOMIC_RELEASE);
	}
	struct live_reallocs *reallocs = memory_pool(record->reallocs);

	count(&reallocs->calls, 1);
	if (moved) {
		count(&reallocs->moved_calls, 1);
		count(&reallocs->moved_bytes, MIN(old_size, new_size));
	}
	count(&reallocs->grown_calls, new_size > old_size);
	count(&reallocs->shrunk_calls, new_size < old_size);
	count(&reallocs->old_bytes, old_size);
	count(&reallocs->new_bytes, new_size);
}
