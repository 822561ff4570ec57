/* SPDX-License-Identifier: Apache-2.0 */
/* The rare parts of accounting: the process' total and its peak, distributions, reallocs.
 *
 * Owns: head->peak (under peak_lock once it is shared), the slots' limits, and the pool. peak.total_bytes is the sum of
 * what the slots have told. With several slots:
 *
 * - While rising each slot stays within a batch of what it has told, so the total is right within a batch for each.
 * - Else a slot may fall as it likes, and rise to its ceiling; the ceilings are such that if all slots were there, the
 *   total would exceed the peak by a batch for each at most. A slot that comes to its ceiling brings what all others
 *   hold up to date, and either there is a new peak, or there is room below it to be shared out anew.
 * - Where there are so many slots that asking all would take long, all stay within a batch at all times.
 *
 * Other slots' counters are read while they run: what an operation in progress does may be seen late. */
#include "recorder/account.h"

#include "recorder/clock.h"
#include "recorder/lock.h"

enum {
	BATCH_MIN = 512,
	BATCH_MAX = 64 * 1024,
	PEAK_SHARE = 512, /* all batches together are this part of the peak */
	SLOTS_FEW = 64,
};

bool account_serial;
static struct lock peak_lock;
static struct slot *slots; /* all of them; under the lock */
static uint32_t slot_count;

void account_reset(void)
{
	peak_lock = (struct lock){ 0 };
	slots = NULL;
	slot_count = 0;
	account_serial = false;
}

void account_recover(struct slot *slot)
{
	lock_recover(&peak_lock, slot->id);
}

static void set_limits(struct slot *slot, int64_t floor, int64_t ceiling)
{
	__atomic_store_n(&slot->floor, floor, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->ceiling, ceiling, __ATOMIC_RELAXED);
}

static void new_peak(struct live_peak *peak, int64_t bytes)
{
	peak->peak_bytes = bytes;
	peak->peak_ms = clock_ms();
	if (!(peak->state & 1))
		__atomic_store_n(&peak->state, peak->state | 1, __ATOMIC_RELAXED);
}

static void end_rising(struct live_peak *peak)
{
	if (peak->state & 1)
		__atomic_store_n(&peak->state, peak->state + 1, __ATOMIC_RELAXED);
}

/* How far a slot may be from what it has told: a small share of the peak. */
static int64_t set_batch(struct live_peak *peak)
{
	uint64_t batch = (uint64_t)peak->peak_bytes / ((uint64_t)PEAK_SHARE * slot_count);

	batch = account_serial ? 0 : MIN(MAX(batch, (uint64_t)BATCH_MIN), (uint64_t)BATCH_MAX);
	peak->batch_bytes = batch;
	/* When the peak is reached, and when the epoch begins. */
	peak->bound_bytes = 2 * (uint64_t)slot_count * batch;
	return (int64_t)batch;
}

static void tell(struct live_peak *peak, struct slot *slot)
{
	int64_t live = account_live(slot->live);

	peak->total_bytes += live - slot->told;
	slot->told = live;
}

/* Brings every slot up to date, and shares the room below the peak out: a quarter for who asks, since one that grows will
 * go on. */
static void gather(struct live_peak *peak, struct slot *asking)
{
	for (struct slot *slot = slots; slot != NULL; slot = slot->next)
		tell(peak, slot);
	if (peak->total_bytes > peak->peak_bytes)
		new_peak(peak, peak->total_bytes);
	int64_t batch = set_batch(peak), room = peak->peak_bytes - peak->total_bytes;
	bool closely = peak->state & 1 || slot_count > SLOTS_FEW;

	for (struct slot *slot = slots; slot != NULL; slot = slot->next) {
		int64_t share = slot == asking ? room / 4 : room * 3 / 4 / (int64_t)slot_count;

		set_limits(slot, closely ? slot->told - batch : INT64_MIN,
			   slot->told + batch + (closely ? 0 : share));
	}
}

/* A slot that stays within a batch of what it has told. */
static void tell_closely(struct live_peak *peak, struct slot *slot)
{
	tell(peak, slot);
	if (peak->total_bytes > peak->peak_bytes)
		new_peak(peak, peak->total_bytes);
	int64_t batch = set_batch(peak);

	set_limits(slot, slot->told - batch, slot->told + batch);
}

/* The only slot there is begins with what it has; its limits follow the peak to the byte. */
COLD void account_join(struct slot *slot)
{
	struct live_peak *peak = &memory.head->peak;

	if (!lock_take(&peak_lock, slot->id))
		return; /* its limits are 0: it tells of all it does, once the lock is back */
	slot->next = slots;
	slots = slot;
	slot_count++;
	if (slot_count == 2) {
		account_serial = memory.control->exact_peak;
		__atomic_store_n(&peak->shared, 1, __ATOMIC_RELEASE);
	}
	if (slot_count == 1)
		set_limits(slot, 1, 0); /* rising, at nothing: the first free of all ends that */
	else if (slot_count <= SLOTS_FEW + 1)
		gather(peak, slot);
	else
		tell_closely(peak, slot);
	lock_give(&peak_lock);
}

NOINLINE void account_above(struct slot *slot)
{
	struct live_peak *peak = &memory.head->peak;

	clock_tick(slot);
	if (!peak->shared) {
		new_peak(peak, account_live(slot->live));
		set_limits(slot, peak->peak_bytes + 1, peak->peak_bytes);
		return;
	}
	if (!lock_take(&peak_lock, slot->id))
		return;
	if (peak->state & 1 || slot_count > SLOTS_FEW)
		tell_closely(peak, slot);
	else
		gather(peak, slot);
	lock_give(&peak_lock);
}

NOINLINE void account_below(struct slot *slot, uint64_t size)
{
	struct live_peak *peak = &memory.head->peak;

	clock_tick(slot);
	if (!peak->shared) {
		end_rising(peak);
		set_limits(slot, INT64_MIN, peak->peak_bytes);
		return;
	}
	if (!lock_take(&peak_lock, slot->id))
		return;
	/* What the slot has not told belongs to the total before this free, which begins the epoch if it is rising. */
	tell_closely(peak, slot);
	end_rising(peak);
	slot->told -= (int64_t)size;
	peak->total_bytes -= (int64_t)size;
	set_limits(slot,
		   slot_count > SLOTS_FEW ? slot->told - (int64_t)peak->batch_bytes : INT64_MIN,
		   slot->told + (int64_t)peak->batch_bytes);
	lock_give(&peak_lock);
}

NOINLINE void account_add_serial(struct slot *slot, struct live_record *record, uint64_t size,
				 uint64_t times)
{
	struct live_peak *peak = &memory.head->peak;
	bool locked = lock_take(&peak_lock, slot->id);

	set_limits(slot, INT64_MIN, INT64_MAX);
	account_add(slot, record, size, times);
	if (!locked)
		return;
	tell(peak, slot);
	if (peak->total_bytes > peak->peak_bytes)
		new_peak(peak, peak->total_bytes);
	lock_give(&peak_lock);
}

NOINLINE void account_remove_serial(struct slot *slot, struct live_record *record, uint64_t size,
				    uint64_t times)
{
	struct live_peak *peak = &memory.head->peak;
	bool locked = lock_take(&peak_lock, slot->id);

	set_limits(slot, INT64_MIN, INT64_MAX);
	end_rising(peak);
	account_remove(slot, record, size, times);
	if (!locked)
		return;
	tell(peak, slot);
	lock_give(&peak_lock);
}

uint32_t account_pool(uint64_t units)
{
	uint64_t unit = memory_append(LIVE_POOL, units, LIVE_POOL_UNIT);

	if (unit != UINT64_MAX && unit + units < LIVE_SIZES_MANY)
		return (uint32_t)unit;
	health_add(HEALTH_lost_details);
	return 0;
}

/* More sizes than can be told apart: all go into half octaves. `calls` holds the current ones already. */
static void sizes_to_many(struct live_record *record, const struct live_sizes_few *few,
			  uint64_t times)
{
	uint32_t unit = account_pool(sizeof(struct live_sizes_many) / LIVE_POOL_UNIT);
	uint64_t first = record->calls - times;

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

NOINLINE void account_size(struct live_record *record, uint64_t size, uint64_t times)
{
	uint32_t ref = record->sizes;

	if (record->calls == times) {
		record->first_size = size;
		return;
	}
	if (ref == 0) {
		ref = account_pool(sizeof(struct live_sizes_few) / LIVE_POOL_UNIT);
		if (ref == 0)
			return;
		__atomic_store_n(&record->sizes, ref, __ATOMIC_RELEASE);
	}
	if (!(ref & LIVE_SIZES_MANY)) {
		struct live_sizes_few *few = memory_pool(ref);

		for (uint64_t i = 0; i < few->used; i++) {
			if (few->entry[i].size == size) {
				count(&few->entry[i].count, times);
				return;
			}
		}
		if (few->used < LIVE_FEW_SIZES) {
			few->entry[few->used].size = size;
			few->entry[few->used].count = times;
			__atomic_store_n(&few->used, few->used + 1, __ATOMIC_RELEASE);
			return;
		}
		sizes_to_many(record, few, times);
		ref = record->sizes;
		if (!(ref & LIVE_SIZES_MANY))
			return;
	}
	struct live_sizes_many *many = memory_pool(ref & ~LIVE_SIZES_MANY);

	count(&many->count[live_size_bucket(size)], times);
}

NOINLINE void account_lifetime(struct live_record *record, uint32_t birth_code, uint64_t times)
{
	uint64_t born = live_birth_ms(birth_code), now = clock_ms();
	uint64_t lived = now > born ? now - born : 0;

	if (lived == 0)
		return;
	if (record->lifetimes == 0) {
		uint32_t unit = account_pool(sizeof(struct live_lifetimes) / LIVE_POOL_UNIT);

		if (unit == 0)
			return;
		__atomic_store_n(&record->lifetimes, unit, __ATOMIC_RELEASE);
	}
	struct live_lifetimes *lifetimes = memory_pool(record->lifetimes);
	unsigned bucket = 63u - (unsigned)__builtin_clzll(lived);

	count(&lifetimes->sum_ms, lived * times);
	count(&lifetimes->count[MIN(bucket, (unsigned)LIVE_LIFETIME_BUCKETS - 1)], times);
}

NOINLINE void account_realloc(struct live_record *record, uint64_t old_size, uint64_t new_size,
			      bool moved, uint64_t times)
{
	if (record->reallocs == 0) {
		uint32_t unit = account_pool(sizeof(struct live_reallocs) / LIVE_POOL_UNIT);

		if (unit == 0)
			return;
		__atomic_store_n(&record->reallocs, unit, __ATOMIC_RELEASE);
	}
	struct live_reallocs *reallocs = memory_pool(record->reallocs);

	count(&reallocs->calls, times);
	if (moved) {
		count(&reallocs->moved_calls, times);
		count(&reallocs->moved_bytes, MIN(old_size, new_size) * times);
	}
	count(&reallocs->grown_calls, new_size > old_size ? times : 0);
	count(&reallocs->shrunk_calls, new_size < old_size ? times : 0);
	count(&reallocs->old_bytes, old_size * times);
	count(&reallocs->new_bytes, new_size * times);
}
