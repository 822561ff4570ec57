/* SPDX-License-Identifier: Apache-2.0 */
/* The table of mapped ranges: sorted by address, without overlap, in scratch memory, under maps_lock.
 *
 * A mapping that loses its middle becomes two pieces; the lower one carries the call count, so that a mapping counts as freed
 * once. Removed ranges are counted after the lock is released, since their site counters may need memory. If a removal cannot get
 * the lock, the next owner of the lock does it (deferred_frees.h). */
#include "recorder/counters/maps.h"

#include "recorder/arch/arch.h"
#include "recorder/counters/account.h"
#include "recorder/counters/deferred_frees.h"
#include "recorder/hooks/allocation.h"
#include "recorder/lock.h"
#include "recorder/counters/sites.h"

static PROCESS_STATE struct live_map_range *table;
static PROCESS_STATE uint32_t used, capacity;
static PROCESS_STATE uint64_t additions = 1;
static PROCESS_STATE struct lock maps_lock;
static PROCESS_STATE struct deferred_frees late; /* key: start, value: bytes */

enum { CAPACITY_FIRST = 256, CAPACITY_MAX = 1 << 20, PIECES = 16 };

/* Removed from the table but not counted yet. */
struct pieces {
	struct piece {
		uint64_t bytes;
		uint32_t counters;
		bool whole;
	} piece[PIECES];
	uint32_t count;
};

void maps_reset(void)
{
	table = NULL;
	used = capacity = 0;
	maps_lock = (struct lock){ 0 };
	deferred_frees_reset(&late);
}

void maps_recover(struct slot *slot)
{
	lock_recover(&maps_lock, slot->id);
}

/* The first range that ends above `address`. */
static uint32_t find(uintptr_t address)
{
	uint32_t low = 0, high = used;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void insert(uint32_t at, struct live_map_range range)
{
	__builtin_memmove(&table[at + 1], &table[at], (used - at) * sizeof *table);
	table[at] = range;
	__atomic_store_n(&used, used + 1, __ATOMIC_RELAXED);
}

static void erase(uint32_t at)
{
	__atomic_store_n(&used, used - 1, __ATOMIC_RELAXED);
	__builtin_memmove(&table[at], &table[at + 1], (used - at) * sizeof *table);
}

/* Removes the part of a range that lies in [start, end). */
static void cut(uint32_t i, uintptr_t start, uintptr_t end, struct pieces *removed)
{
	struct live_map_range range = table[i], tail = range;
	uintptr_t low = MAX(range.start, start), high = MIN(range.end, end);

	if (low > range.start && high < range.end && used == capacity) {
		health_add(HEALTH_untracked_maps); /* no room for two: drop the tail too */
		high = range.end;
	}
	removed->piece[removed->count++] =
		(struct piece){ high - low, range.counters,
				low == range.start && high == range.end && range.counts };
	arch_add(&memory.head->map_live_bytes, low - high);
	tail.start = high;
	tail.counts = range.counts && low == range.start;
	if (low > range.start)
		table[i++].end = low;
	else
		erase(i);
	if (high < range.end)
		insert(i, tail);
}

/* Removes everything in [start, end) that was added before `until`, highest first, so that bulk removals (e.g. by brk) do not move
 * entries that are removed next. False: `removed` is full, and there may be more. */
static bool remove_range(uintptr_t start, uintptr_t end, uint64_t until, struct pieces *removed)
{
	uint32_t i = find(end - 1);

	if (start >= end)
		return true; /* empty, or it wraps */
	i += i < used && table[i].start < end;
	for (; i > 0 && table[i - 1].end > start; i--) {
		if (table[i - 1].added >= until)
			continue;
		if (removed->count == PIECES)
			return false;
		cut(i - 1, start, end, removed);
	}
	return true;
}

/* Does the deferred removals. False: `removed` is full. */
static bool remove_late(struct pieces *removed)
{
	struct deferred_free end;

	for (uint32_t at = 0;
	     !deferred_frees_is_empty(&late) && deferred_frees_next(&late, &at, &end); at++) {
		if (!remove_range(end.key, end.key + end.value, end.until, removed))
			return false;
		deferred_frees_done(&late, at);
	}
	return true;
}

static bool add_range(uintptr_t start, uint64_t bytes, uint32_t counters)
{
	struct live_header *head = memory.head;

	if (used == capacity) {
		health_add(HEALTH_untracked_maps);
		return false;
	}
	insert(find(start), (struct live_map_range){ start, start + bytes, additions, counters,
						     .counts = true });
	__atomic_store_n(&additions, additions + 1, __ATOMIC_RELAXED);
	arch_add(&head->map_live_bytes, bytes);
	if (head->map_live_bytes > head->map_peak_bytes)
		head->map_peak_bytes = head->map_live_bytes;
	return true;
}

static void count_removed(struct slot *slot, const struct pieces *removed)
{
	ARCH_ORDER_STORES(); /* as in account_remove */
	for (uint32_t i = 0; i < removed->count; i++) {
		const struct piece *piece = &removed->piece[i];
		struct live_site_counters *counters = memory_counters(piece->counters);

		if (counters->thread != slot->thread) {
			slot_freed_for(slot, counters, piece->whole, piece->bytes);
			counters = memory_counters(sites_counters_of_site(slot, counters->site));
		}
		account_save(counters);
		arch_add(&counters->unaged_frees, piece->whole); /* a range has no birth */
		arch_add(&counters->frees, piece->whole);
		arch_add(&counters->freed_bytes, piece->bytes);
		arch_add(&slot->live->unmap_calls, piece->whole);
		arch_add(&slot->live->unmap_bytes, piece->bytes);
	}
}

static void count_added(struct slot *slot, uint64_t bytes, uint32_t id)
{
	struct live_site_counters *counters = memory_counters(id);

	account_save(counters);
	account_counters_add(counters, bytes, 1);
	if (counters->first_size != bytes)
		account_size(counters, bytes, 1);
	arch_add(&slot->live->map_calls, 1);
	arch_add(&slot->live->map_bytes, bytes);
}

/* The table is sorted, without overlap, and adds up to the mapped bytes. Under the lock. */
static void check_maps(void)
{
	static struct check_pace pace;
	uint64_t sum = 0;

	if (!check_is_due(&pace))
		return;
	RECORDER_CHECK(used <= capacity);
	for (uint32_t i = 0; i < used; i++) {
		const struct live_map_range *range = &table[i];

		RECORDER_CHECK(range->start < range->end);
		RECORDER_CHECK(range->start % ARCH_PAGE == 0 && range->end % ARCH_PAGE == 0);
		RECORDER_CHECK(i == 0 || table[i - 1].end <= range->start);
		RECORDER_CHECK(range->added < additions);
		RECORDER_CHECK(range->counters != 0 &&
			       range->counters < memory_used(LIVE_SITE_COUNTERS));
		RECORDER_CHECK(memory_site(memory_counters(range->counters)->site)->kind ==
			       LIVE_KIND_MMAP);
		sum += range->end - range->start;
	}
	RECORDER_CHECK(sum == memory.head->map_live_bytes);
	RECORDER_CHECK(sum <= memory.head->map_peak_bytes);
	check_done(&pace, used);
}

/* Takes the lock, with capacity for two more ranges if memory allows. */
static bool acquire_with_capacity(struct slot *slot)
{
	struct live_map_range *larger = NULL;
	uint32_t have = __atomic_load_n(&capacity, __ATOMIC_RELAXED);

	if (__atomic_load_n(&used, __ATOMIC_RELAXED) + 2 > have && have < CAPACITY_MAX)
		larger = memory_scratch((have ? 2ull * have : CAPACITY_FIRST) * sizeof *table);
	if (!lock_acquire(&maps_lock, slot->id))
		return false;
	if (larger != NULL && capacity == have) {
		if (used > 0)
			__builtin_memcpy(larger, table, used * sizeof *table);
		table = larger;
		__atomic_store_n(&capacity, have ? 2 * have : CAPACITY_FIRST, __ATOMIC_RELAXED);
	}
	return true;
}

/* Lets readers detect changes of the table: doc: live_maps. A writer that dies in between leaves the number odd. */
static void begin_change(void)
{
	struct live_maps *maps = &memory.head->maps;

	__atomic_store_n(&maps->serial, maps->serial | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void end_change(void)
{
	struct live_maps *maps = &memory.head->maps;

	maps->at = table != NULL ? (uint64_t)((char *)table - (char *)memory.head) : 0;
	maps->used = used;
	__atomic_store_n(&maps->serial, (maps->serial | 1) + 1, __ATOMIC_RELEASE);
}

/* Removes a range like remove_range, and adds it again if counters are not 0. False: could not take the lock. */
static bool change(struct slot *slot, uintptr_t start, uint64_t bytes, uint64_t until,
		   uint32_t counters)
{
	for (bool done = false; !done;) {
		struct pieces removed = { .count = 0 };
		bool added = false;

		if (!acquire_with_capacity(slot))
			return false;
		begin_change();
		done = remove_late(&removed) && remove_range(start, start + bytes, until, &removed);
		if (done && counters != 0)
			added = add_range(start, bytes, counters);
		end_change();
		if (CHECKED)
			check_maps();
		lock_release(&maps_lock);
		count_removed(slot, &removed);
		if (added)
			count_added(slot, bytes, counters);
	}
	return true;
}

void maps_add(struct slot *slot, uintptr_t start, uint64_t bytes, uint32_t counters)
{
	/* A known range there was unmapped without our seeing it: the kernel would not map it twice. */
	change(slot, start, bytes, UINT64_MAX, counters);
}

uint64_t maps_additions(void)
{
	return __atomic_load_n(&additions, __ATOMIC_RELAXED);
}

void maps_remove_before(struct slot *slot, uint64_t until, uintptr_t start, uint64_t bytes)
{
	if (__atomic_load_n(&used, __ATOMIC_RELAXED) != 0 && !change(slot, start, bytes, until, 0))
		deferred_frees_add(&late, (struct deferred_free){ start, bytes, until });
}

void maps_remove(struct slot *slot, uintptr_t start, uint64_t bytes)
{
	maps_remove_before(slot, UINT64_MAX, start, bytes);
}

uint64_t maps_before_move(struct slot *slot, uintptr_t start, uint64_t bytes)
{
	uint64_t until = 0;

	if (__atomic_load_n(&used, __ATOMIC_RELAXED) == 0)
		return 0;
	if (!lock_acquire(&maps_lock, slot->id)) {
		health_add(HEALTH_unknown_ends);
		return 0;
	}
	for (uint32_t i = find(start); i < used && table[i].start < start + bytes; i++) {
		struct live_map_range *range = &table[i];

		if (range->moving)
			continue;
		until = additions;
		range->moving = range->start >= start && range->end <= start + bytes;
	}
	lock_release(&maps_lock);
	return until;
}

void maps_stay(struct slot *slot, uint64_t until, uintptr_t start, uint64_t bytes)
{
	if (until == 0)
		return;
	if (!lock_acquire(&maps_lock, slot->id)) {
		health_add(HEALTH_unknown_ends);
		return;
	}
	for (uint32_t i = find(start); i < used && table[i].start < start + bytes; i++)
		if (table[i].added < until)
			table[i].moving = false;
	lock_release(&maps_lock);
}

void maps_move(struct slot *slot, uint64_t until, uintptr_t from, uint64_t from_bytes, uintptr_t to,
	       uint64_t to_bytes, uint32_t counters)
{
	if (until != 0 && !change(slot, from, from_bytes, until, 0))
		health_add(HEALTH_unknown_ends);
	if (until != 0 && counters != 0)
		maps_add(slot, to, to_bytes, counters);
	else if (to != from)
		maps_remove(slot, to, to_bytes);
}
