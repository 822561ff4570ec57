/* SPDX-License-Identifier: Apache-2.0 */
/* The table of mapped ranges: sorted by address, without overlap, in scratch memory, under maps_lock.
 *
 * A mapping that loses its middle becomes two pieces; the one at the lower end stands for the call, so that a mapping
 * counts as freed once. Cold: mapping is a system call anyway; so, unlike the other locks, this one may be held while a
 * record's memory is opened, and over mremap. */
#include "recorder/maps.h"

#include "recorder/account.h"
#include "recorder/lock.h"
#include "recorder/sites.h"

struct range {
	uintptr_t start, end;
	uint32_t record;
	bool counts; /* its end is the end of the mapping */
};
static struct range *table;
static uint32_t used, capacity;
static struct lock maps_lock;

enum { CAPACITY_FIRST = 256, CAPACITY_MAX = 1 << 20 };

void maps_reset(void)
{
	table = NULL;
	used = capacity = 0;
	maps_lock = (struct lock){ 0 };
}

void maps_recover(struct slot *slot)
{
	lock_recover(&maps_lock, slot->id);
}

/* Takes the lock with room for two more ranges. */
static bool take_with_room(struct slot *slot)
{
	struct range *larger = NULL;
	uint32_t have = __atomic_load_n(&capacity, __ATOMIC_RELAXED);

	if (used + 2 > have && have < CAPACITY_MAX)
		larger = memory_scratch((have ? 2ull * have : CAPACITY_FIRST) * sizeof *table);
	if (!lock_take(&maps_lock, slot->id))
		return false;
	if (larger != NULL && capacity == have) {
		if (used > 0)
			__builtin_memcpy(larger, table, used * sizeof *table);
		table = larger;
		capacity = have ? 2 * have : CAPACITY_FIRST;
	}
	if (used + 2 <= capacity)
		return true;
	lock_give(&maps_lock);
	health_add(HEALTH_untracked_maps);
	return false;
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

static void insert(uint32_t at, struct range range)
{
	__builtin_memmove(&table[at + 1], &table[at], (used - at) * sizeof *table);
	table[at] = range;
	used++;
}

static void erase(uint32_t at)
{
	used--;
	__builtin_memmove(&table[at], &table[at + 1], (used - at) * sizeof *table);
}

static void count_gone(struct slot *slot, const struct range *range, uint64_t bytes, bool whole)
{
	struct live_record *record = memory_record(range->record);

	if (record->slot != slot->id)
		record = memory_record(sites_record_of_site(slot, record->site));
	count(&record->frees, whole);
	count(&record->freed_bytes, bytes);
	count(&slot->live->unmap_calls, whole);
	count(&slot->live->unmap_bytes, bytes);
	count(&memory.head->map_live_bytes, -bytes);
}

static void add_locked(struct slot *slot, uintptr_t start, uint64_t bytes, uint32_t record_id)
{
	struct live_record *record = memory_record(record_id);
	struct live_header *head = memory.head;

	if (used == capacity) {
		health_add(HEALTH_untracked_maps);
		return;
	}
	insert(find(start), (struct range){ start, start + bytes, record_id, true });
	account_record_add(record, bytes, 1);
	if (record->first_size != bytes)
		account_size(record, bytes, 1);
	count(&slot->live->map_calls, 1);
	count(&slot->live->map_bytes, bytes);
	count(&head->map_live_bytes, bytes);
	if (head->map_live_bytes > head->map_peak_bytes)
		head->map_peak_bytes = head->map_live_bytes;
}

static uint64_t remove_locked(struct slot *slot, uintptr_t start, uintptr_t end)
{
	uint64_t gone = 0;

	for (uint32_t i = find(start); i < used && table[i].start < end;) {
		struct range range = table[i];
		uintptr_t low = MAX(range.start, start), high = MIN(range.end, end);
		struct range tail = { high, range.end, range.record,
				      range.counts && low == range.start };
		bool whole = low == range.start && high == range.end && range.counts;

		count_gone(slot, &range, high - low, whole);
		gone += high - low;
		if (low > range.start)
			table[i++].end = low;
		else
			erase(i);
		if (high < range.end)
			insert(i++, tail);
	}
	return gone;
}

bool maps_begin(struct slot *slot)
{
	return take_with_room(slot);
}

void maps_end(void)
{
	lock_give(&maps_lock);
}

void maps_add(struct slot *slot, uintptr_t start, uint64_t bytes, uint32_t record)
{
	if (!maps_begin(slot))
		return;
	remove_locked(slot, start,
		      start + bytes); /* unmapped unseen: the kernel would not give it twice */
	add_locked(slot, start, bytes, record);
	maps_end();
}

void maps_remove(struct slot *slot, uintptr_t start, uint64_t bytes)
{
	if (used == 0 || !maps_begin(slot))
		return;
	remove_locked(slot, start, start + bytes);
	maps_end();
}

void maps_move(struct slot *slot, uintptr_t from, uint64_t from_bytes, uintptr_t to,
	       uint64_t to_bytes, uint32_t record)
{
	uint64_t known = remove_locked(slot, from, from + from_bytes);

	if (to != from)
		remove_locked(slot, to, to + to_bytes);
	if (known > 0 && record != 0)
		add_locked(slot, to, to_bytes, record);
}
