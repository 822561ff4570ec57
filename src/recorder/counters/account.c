/* SPDX-License-Identifier: Apache-2.0 */
/* Slow paths of accounting: the process total and its peak, distributions, reallocs.
 *
 * Owns: head->peak, the slots' limits, and the pool. peak.total_bytes is the sum of what the slots have published. With several
 * slots:
 *
 * - While rising, each slot stays within a batch of what it has published, so the total is exact to a batch per slot.
 * - Otherwise a slot may fall freely, and rise to its ceiling. The ceilings are set so that if all slots reached theirs, the
 *   total would exceed the peak by at most a batch per slot. A slot that reaches its ceiling publishes the live bytes
 *   of all slots; then either there is a new peak, or the headroom below it is divided again.
 * - With so many slots that reading all would take long, each stays within a batch at all times.
 *
 * Nobody waits: with hundreds of threads nearly every operation gets here. Publishing is atomic (published, total, peak and state,
 * each by itself); one slot at a time reads all, and a slot that finds another doing so publishes only its own bytes. Only a new slot
 * and the serial mode wait for the lock. With few slots a rise starts under the lock, because all limits must follow; any slot may
 * end it.
 *
 * Other slots' counters are read while they run: the effect of an operation in progress may be seen late. */
#include "recorder/counters/account.h"

#include "base/checked.h"
#include "recorder/checks/chaos.h"
#include "recorder/clock.h"
#include "recorder/counters/pairs.h"
#include "recorder/hooks/free.h"
#include "recorder/lock.h"

enum {
	BATCH_MIN = 512,
	BATCH_MAX = 64 * 1024,
	PEAK_SHARE = 512, /* all batches together: 1/512 of the peak, within the bounds above */
	SLOTS_FEW = 64,
	TRIES = 4,
};

PROCESS_STATE bool account_serial;
static PROCESS_STATE struct lock peak_lock;
static PROCESS_STATE struct slot *slots; /* all slots; only ever grows */
static PROCESS_STATE uint32_t slot_count;
static uint64_t publishing_begun, publishing_done; /* counted in the checking build only */

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

/* ---- several slots ---- */

static bool are_many(void)
{
	return __atomic_load_n(&slot_count, __ATOMIC_RELAXED) > SLOTS_FEW;
}

static bool is_rising(const struct live_peak *peak)
{
	return __atomic_load_n(&peak->state, __ATOMIC_SEQ_CST) & 1;
}

/* Sets the slot's published bytes to `live`. */
static void publish_as(struct live_peak *peak, struct slot *slot, int64_t live)
{
	if (CHECKED)
		__atomic_fetch_add(&publishing_begun, 1, __ATOMIC_SEQ_CST);
	int64_t published = __atomic_exchange_n(&slot->published, live, __ATOMIC_RELAXED);

	CHAOS_DELAY();
	if (live != published)
		__atomic_fetch_add(&peak->total_bytes, live - published, __ATOMIC_RELAXED);
	if (CHECKED)
		__atomic_fetch_add(&publishing_done, 1, __ATOMIC_SEQ_CST);
}

static void publish(struct live_peak *peak, struct slot *slot)
{
	publish_as(peak, slot, memory_live_of(slot->live));
}

/* True if the slot's unpublished bytes make a new maximum. */
static bool would_be_peak(const struct live_peak *peak, const struct slot *slot)
{
	return __atomic_load_n(&peak->total_bytes, __ATOMIC_RELAXED) + account_live(slot->live) -
		       __atomic_load_n(&slot->published, __ATOMIC_RELAXED) >
	       __atomic_load_n(&peak->peak_bytes, __ATOMIC_ACQUIRE);
}

static bool is_new_peak(const struct live_peak *peak)
{
	return __atomic_load_n(&peak->total_bytes, __ATOMIC_RELAXED) >
	       __atomic_load_n(&peak->peak_bytes, __ATOMIC_RELAXED);
}

/* Sets how far a slot may deviate from what it has published: a small share of
 * the peak. Call after the peak or the number of slots has changed. */
static void set_batch(struct live_peak *peak)
{
	uint64_t count = __atomic_load_n(&slot_count, __ATOMIC_RELAXED);
	uint64_t most = (uint64_t)__atomic_load_n(&peak->peak_bytes, __ATOMIC_RELAXED);
	uint64_t batch = most / (PEAK_SHARE * count);

	batch = ORDER_LOAD(account_serial)
			? 0
			: MIN(MAX(batch, (uint64_t)BATCH_MIN), (uint64_t)BATCH_MAX);
	__atomic_store_n(&peak->batch_bytes, batch, __ATOMIC_RELAXED);
	/* Once when the peak is reached, once when the epoch starts. */
	__atomic_store_n(&peak->bound_bytes, 2 * count * batch, __ATOMIC_RELAXED);
}

static int64_t batch_of(const struct live_peak *peak)
{
	return (int64_t)__atomic_load_n(&peak->batch_bytes, __ATOMIC_RELAXED);
}

/* Raises the maximum to the current total: an older total would not match the counters. True: there is a new maximum. */
static bool raise_peak(struct live_peak *peak)
{
	int64_t total = __atomic_load_n(&peak->total_bytes, __ATOMIC_RELAXED);
	int64_t most = __atomic_load_n(&peak->peak_bytes, __ATOMIC_ACQUIRE);

	do
		if (total <= most)
			return false;
	while (!__atomic_compare_exchange_n(&peak->peak_bytes, &most, total, true, __ATOMIC_RELEASE,
					    __ATOMIC_ACQUIRE));
	__atomic_store_n(&peak->peak_ms, clock_ms(), __ATOMIC_RELAXED);
	set_batch(peak);
	return true;
}

/* Starts rising if the total is above the maximum. Sets the state before the maximum (release): a slot that shrinks in between either
 * sees that the new maximum is not stored yet, and stores it, or (acquire) sees the process rising. */
static void rise(struct live_peak *peak)
{
	uint32_t state = __atomic_load_n(&peak->state, __ATOMIC_RELAXED);

	while (is_new_peak(peak) && !(state & 1) &&
	       !__atomic_compare_exchange_n(&peak->state, &state, state | 1, true, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	raise_peak(peak);
	/* While rising, counters change without being saved: readers must not see that before the state. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Call before a slot shrinks: the current total is the peak if the process is
 * rising or this is a new maximum; then an epoch starts. */
static void end_rising(struct live_peak *peak)
{
	bool at_peak = raise_peak(peak);
	uint32_t state = __atomic_load_n(&peak->state, __ATOMIC_RELAXED);

	while ((state & 1 || at_peak) &&
	       !__atomic_compare_exchange_n(&peak->state, &state, (state | 1) + 1, true,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* Keeps the slot within a batch of what it has published; `falls`: without a floor. */
static void stay_close(struct live_peak *peak, struct slot *slot, bool falls)
{
	int64_t published = __atomic_load_n(&slot->published, __ATOMIC_RELAXED),
		batch = batch_of(peak);

	set_limits(slot, falls ? INT64_MIN : published - batch, published + batch);
}

/* Publishes the live bytes of every slot and divides the headroom below the peak: a quarter goes to the requester, since a growing
 * slot will keep growing. Under the lock. */
static void gather(struct live_peak *peak, struct slot *requester)
{
	struct slot *all = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);

	for (struct slot *slot = all; slot != NULL; slot = slot->next)
		publish(peak, slot);
	rise(peak);
	/* The rise before the limits, for below_shared: storing the state is not a fence on every architecture. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	int64_t batch = batch_of(peak);
	int64_t room = __atomic_load_n(&peak->peak_bytes, __ATOMIC_RELAXED) -
		       __atomic_load_n(&peak->total_bytes, __ATOMIC_RELAXED);
	int64_t count = __atomic_load_n(&slot_count, __ATOMIC_RELAXED);
	bool closely = are_many() || is_rising(peak) || room < 0;

	for (struct slot *slot = all; slot != NULL; slot = slot->next) {
		int64_t share = slot == requester ? room / 4 : room * 3 / 4 / count;
		int64_t published = __atomic_load_n(&slot->published, __ATOMIC_RELAXED);

		set_limits(slot, closely ? published - batch : INT64_MIN,
			   published + batch + (closely ? 0 : share));
	}
}

/* Checks that the total is the sum of what the slots have published, unless a slot publishes meanwhile. Under the lock. */
static void check_total(const struct live_peak *peak)
{
	static struct check_pace pace;
	uint64_t done = __atomic_load_n(&publishing_done, __ATOMIC_SEQ_CST), count = 0;
	int64_t total = __atomic_load_n(&peak->total_bytes, __ATOMIC_SEQ_CST), published = 0;
	const struct slot *slot = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);

	(void)done; /* used in the checking build only */
	(void)total;
	if (!check_is_due(&pace))
		return;
	for (; slot != NULL; slot = slot->next, count++)
		published += __atomic_load_n(&slot->published, __ATOMIC_RELAXED);
	RECORDER_CHECK(count <= memory_used(LIVE_SLOTS));
	RECORDER_CHECK(published == total ||
		       __atomic_load_n(&publishing_begun, __ATOMIC_SEQ_CST) != done);
	check_done(&pace, count);
}

static void above_shared(struct live_peak *peak, struct slot *slot)
{
	publish(peak, slot);
	if (are_many()) {
		rise(peak);
		stay_close(peak, slot, false);
	} else if (is_rising(peak)) {
		raise_peak(peak);
		stay_close(peak, slot, false);
	} else if (lock_try(&peak_lock, slot->id)) {
		gather(peak, slot);
		if (CHECKED)
			check_total(peak);
		lock_release(&peak_lock);
	} /* else: its next operation tries again */
}

/* If another slot starts a rise while this one subtracts its free from the total, the new maximum may or may not include the block,
 * which the counters still include: retry, with the block. */
static void below_shared(struct live_peak *peak, struct slot *slot, uint64_t size)
{
	bool many = are_many();

	for (int i = 0; i < TRIES; i++) {
		/* The slot's unpublished bytes belong to the total before this free. */
		if (is_rising(peak) || would_be_peak(peak, slot)) {
			publish(peak, slot);
			end_rising(peak);
		}
		publish_as(peak, slot, account_live(slot->live) - (int64_t)size);
		stay_close(peak, slot, !many);
		/* gather starts the rise before it sets limits: either its limits came after these, or the rise is visible now. */
		if (!many)
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (LIKELY(!is_rising(peak)))
			return;
	}
	stay_close(peak, slot, false);
}

/* ---- called by slots ---- */

/* A single slot's limits follow the peak to the byte. */
COLD void account_join(struct slot *slot)
{
	struct live_peak *peak = &memory.head->peak;

	slot->next = __atomic_load_n(&slots, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&slots, &slot->next, slot, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	uint32_t count = __atomic_add_fetch(&slot_count, 1, __ATOMIC_RELAXED);

	if (count == 1) {
		set_limits(slot, 1, 0); /* rising, at 0 bytes: the first free ends the rise */
		return;
	}
	if (count == 2) {
		__atomic_store_n(&account_serial, memory.control->exact_peak != 0,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&peak->shared, 1, __ATOMIC_RELEASE);
	}
	set_batch(peak);
	if (count <= SLOTS_FEW + 1 && lock_acquire(&peak_lock, slot->id)) {
		gather(peak, slot);
		lock_release(&peak_lock);
	} else {
		stay_close(peak, slot, false);
	}
}

/* True if there is only one slot; then only its thread writes. */
static bool is_alone(const struct live_peak *peak)
{
	return !__atomic_load_n(&peak->shared, __ATOMIC_ACQUIRE);
}

NOINLINE void account_above(struct slot *slot)
{
	struct live_peak *peak = &memory.head->peak;

	clock_tick(slot);
	if (is_alone(peak)) {
		peak->peak_bytes = account_live(slot->live);
		peak->peak_ms = clock_ms();
		if (!(peak->state & 1))
			__atomic_store_n(&peak->state, peak->state | 1, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE); /* as in rise */
		set_limits(slot, peak->peak_bytes + 1, peak->peak_bytes);
		CHAOS_DELAY();
		if (LIKELY(is_alone(peak)))
			return;
	}
	above_shared(peak, slot);
}

NOINLINE void account_below(struct slot *slot, uint64_t size)
{
	struct live_peak *peak = &memory.head->peak;

	clock_tick(slot);
	if (is_alone(peak)) {
		if (peak->state & 1)
			__atomic_store_n(&peak->state, peak->state + 1, __ATOMIC_RELAXED);
		set_limits(slot, INT64_MIN, peak->peak_bytes);
		if (LIKELY(is_alone(peak)))
			return;
	}
	below_shared(peak, slot, size);
}

NOINLINE void account_add_serial(struct slot *slot, struct live_site_counters *counters,
				 uint64_t size, uint64_t weight)
{
	struct live_peak *peak = &memory.head->peak;
	bool locked = lock_acquire(&peak_lock, slot->id);

	set_limits(slot, INT64_MIN, INT64_MAX);
	account_add(slot, counters, size, weight);
	publish(peak, slot);
	rise(peak);
	if (locked)
		lock_release(&peak_lock);
}

NOINLINE void account_remove_serial(struct slot *slot, struct live_site_counters *counters,
				    uint64_t size, uint64_t weight)
{
	struct live_peak *peak = &memory.head->peak;
	bool locked = lock_acquire(&peak_lock, slot->id);

	set_limits(slot, INT64_MIN, INT64_MAX);
	end_rising(peak);
	account_remove(slot, counters, size, weight);
	publish(peak, slot);
	if (locked)
		lock_release(&peak_lock);
}

uint32_t account_pool(uint64_t units)
{
	uint64_t unit = memory_append(LIVE_POOL, units, LIVE_POOL_UNIT);

	if (unit != UINT64_MAX && unit + units < LIVE_SIZES_MANY)
		return (uint32_t)unit;
	health_add(HEALTH_lost_details);
	return 0;
}

uint32_t account_details(uint64_t bytes)
{
	uint64_t units = bytes / LIVE_POOL_UNIT;

	if (memory_open_above_reserve(LIVE_POOL, (memory_used(LIVE_POOL) + units) * LIVE_POOL_UNIT))
		return account_pool(units);
	health_add(HEALTH_lost_details);
	return 0;
}

/* Too many distinct sizes to count each: puts all into half-octave buckets. `calls` already includes the current calls. */
static void sizes_to_many(struct live_site_counters *counters, const struct live_sizes_few *few,
			  uint64_t weight)
{
	uint32_t unit = account_details(sizeof(struct live_sizes_many));
	uint64_t first = counters->calls - weight;

	if (unit == 0)
		return;
	struct live_sizes_many *many = memory_pool(unit);

	for (uint64_t i = 0; i < few->used; i++) {
		many->count[live_size_bucket(few->entry[i].size)] += few->entry[i].count;
		first -= few->entry[i].count;
	}
	many->count[live_size_bucket(counters->first_size)] += first;
	__atomic_store_n(&counters->sizes, unit | LIVE_SIZES_MANY, __ATOMIC_RELEASE);
	counters->first_size = UINT64_MAX; /* matches no call: from now on all get here */
}

NOINLINE void account_size(struct live_site_counters *counters, uint64_t size, uint64_t weight)
{
	uint32_t ref = counters->sizes;

	if (counters->calls == weight) {
		counters->first_size = size;
		return;
	}
	if (ref == 0) {
		ref = account_details(sizeof(struct live_sizes_few));
		if (ref == 0)
			return;
		__atomic_store_n(&counters->sizes, ref, __ATOMIC_RELEASE);
	}
	if (!(ref & LIVE_SIZES_MANY)) {
		struct live_sizes_few *few = memory_pool(ref);

		for (uint64_t i = 0; i < few->used; i++) {
			if (few->entry[i].size == size) {
				arch_add(&few->entry[i].count, weight);
				return;
			}
		}
		if (few->used < LIVE_FEW_SIZES) {
			few->entry[few->used].size = size;
			few->entry[few->used].count = weight;
			__atomic_store_n(&few->used, few->used + 1, __ATOMIC_RELEASE);
			return;
		}
		sizes_to_many(counters, few, weight);
		ref = counters->sizes;
		if (!(ref & LIVE_SIZES_MANY))
			return;
	}
	struct live_sizes_many *many = memory_pool(ref & ~LIVE_SIZES_MANY);

	arch_add(&many->count[live_size_bucket(size)], weight);
}

NOINLINE void account_block_lifetime(struct slot *slot, struct live_site_counters *counters,
				     uint64_t size, uint64_t birth_ms, uint64_t weight)
{
	uint64_t lived = saturating_sub(clock_ms(), birth_ms);

	account_lifetime(counters, birth_ms, weight);
	if (live_birth_is_known(birth_ms) && lived != 0)
		pairs_count(slot, LIVE_PAIRS_LIFETIME, size, lived, weight);
}

NOINLINE void account_lifetime(struct live_site_counters *counters, uint64_t birth_ms,
			       uint64_t weight)
{
	uint64_t lived = saturating_sub(clock_ms(), birth_ms);

	if (!live_birth_is_known(birth_ms)) {
		arch_add(&counters->unaged_frees, weight);
		return;
	}
	if (lived == 0)
		return;
	if (counters->lifetimes == 0) {
		uint32_t unit = account_details(sizeof(struct live_lifetimes));

		if (unit == 0)
			return;
		__atomic_store_n(&counters->lifetimes, unit, __ATOMIC_RELEASE);
	}
	struct live_lifetimes *lifetimes = memory_pool(counters->lifetimes);
	unsigned bucket = 63u - (unsigned)__builtin_clzll(lived);

	arch_add(&lifetimes->sum_ms, lived * weight);
	arch_add(&lifetimes->count[MIN(bucket, (unsigned)LIVE_LIFETIME_BUCKETS - 1)], weight);
}

NOINLINE void account_realloc(struct slot *slot, struct live_site_counters *counters,
			      uint64_t old_size, uint64_t new_size, bool moved, uint64_t weight)
{
	if (slot != NULL)
		pairs_count(slot, LIVE_PAIRS_REALLOC, old_size, new_size, weight);
	if (counters->reallocs == 0) {
		uint32_t unit = account_details(sizeof(struct live_reallocs));

		if (unit == 0)
			return;
		__atomic_store_n(&counters->reallocs, unit, __ATOMIC_RELEASE);
	}
	struct live_reallocs *reallocs = memory_pool(counters->reallocs);

	arch_add(&reallocs->calls, weight);
	if (moved) {
		arch_add(&reallocs->moved_calls, weight);
		arch_add(&reallocs->moved_bytes, MIN(old_size, new_size) * weight);
	}
	arch_add(&reallocs->grown_calls, new_size > old_size ? weight : 0);
	arch_add(&reallocs->shrunk_calls, new_size < old_size ? weight : 0);
	arch_add(&reallocs->old_bytes, old_size * weight);
	arch_add(&reallocs->new_bytes, new_size * weight);
}
