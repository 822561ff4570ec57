/* SPDX-License-Identifier: Apache-2.0 */
/* See sampled.h.
 *
 * Owns: LIVE_SAMPLED, whose entries stay where they are, and the index, two tables in scratch memory of which one is in use.
 * Changed under a lock, for which memory is had before. The index is looked at without it: one that fills up is made anew in
 * the other table, and who finds nothing while that goes on takes it for "perhaps".
 * Invariant: an entry of the list has an address if and only if the index leads there. */
#include "recorder/sampled.h"

#include "recorder/lock.h"
#include "recorder/table.h"

enum { GONE = UINT32_MAX }; /* id of a place that is free again, but others lie behind it */

static struct table tables[2];
static uint32_t current, live, first_free; /* of the tables; entries; number of an entry + 1 */
static uint32_t version;		   /* odd: the index is being made anew */
static struct lock sampled_lock;

static struct live_sampled *entry_of(uint32_t id)
{
	return (struct live_sampled *)(void *)memory.region[LIVE_SAMPLED] + (id - 1);
}

void sampled_reset(void)
{
	tables[0] = tables[1] = (struct table){ 0 };
	current = live = first_free = version = 0;
	sampled_lock = (struct lock){ 0 };
}

void sampled_recover(struct slot *slot)
{
	if (__atomic_load_n(&sampled_lock.owner, __ATOMIC_RELAXED) != slot->id + 1)
		return;
	/* A table that was being made is not in use yet. */
	__atomic_store_n(&version, (version + 1) & ~1u, __ATOMIC_RELEASE);
	lock_recover(&sampled_lock, slot->id);
}

/* Blocks lie 16 bytes apart, and within 64 GiB no two have the same. */
static uint32_t tag_of(uintptr_t address)
{
	return (uint32_t)(address >> 4);
}

static uint32_t place_of(uint32_t tag)
{
	return (uint32_t)(tag * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

bool sampled_may_have(const void *address)
{
	uint32_t before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
	const struct table *table = &tables[__atomic_load_n(&current, __ATOMIC_ACQUIRE)];
	const struct table_entry *entry = __atomic_load_n(&table->entry, __ATOMIC_ACQUIRE);
	uint32_t mask = __atomic_load_n(&table->mask, __ATOMIC_RELAXED);
	uint32_t tag = tag_of((uintptr_t)address), place = place_of(tag);

	if (before & 1)
		return true;
	if (entry == NULL)
		return false;
	for (uint32_t looks = 0; looks <= mask; looks++, place++) {
		uint32_t id = __atomic_load_n(&entry[place & mask].id, __ATOMIC_ACQUIRE);

		if (id == 0)
			break;
		if (id != GONE && entry[place & mask].tag == tag)
			return true;
	}
	return __atomic_load_n(&version, __ATOMIC_ACQUIRE) != before;
}

/* The place of an address in the index; NULL: none. Under the lock. */
static struct table_entry *find(uintptr_t address)
{
	const struct table *table = &tables[current];
	uint32_t tag = tag_of(address), place = place_of(tag);

	for (; table->entry != NULL; place++) {
		struct table_entry *at = &table->entry[place & table->mask];

		if (at->id == 0)
			return NULL;
		if (at->id != GONE && at->tag == tag && entry_of(at->id)->address == address)
			return at;
	}
	return NULL;
}

/* Pre: there is room. */
static void enter(struct table *table, uint32_t tag, uint32_t id)
{
	uint32_t place = place_of(tag);

	while (table->entry[place & table->mask].id != 0)
		place++;
	table->entry[place & table->mask].tag = tag;
	__atomic_store_n(&table->entry[place & table->mask].id, id, __ATOMIC_RELEASE);
	table->used++;
}

static bool is_full(const struct table *table)
{
	return table->entry == NULL || table->used >= (table->mask + 1) / 4 * 3;
}

/* The index anew in the other table, which is large enough. Under the lock. */
static void rebuild(void)
{
	struct table *from = &tables[current], *to = &tables[!current];

	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	table_clear(to);
	for (uint64_t i = 0; from->entry != NULL && i <= from->mask; i++) {
		if (from->entry[i].id != 0 && from->entry[i].id != GONE)
			enter(to, from->entry[i].tag, from->entry[i].id);
	}
	__atomic_store_n(&current, !current, __ATOMIC_RELEASE);
	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
}

/* A table with twice the room that there is need for, if the one that is not in use has not got that. Before the lock is
 * taken. */
static struct table make_spare(void)
{
	uint64_t size = TABLE_FIRST;

	if (!is_full(&tables[current]))
		return (struct table){ 0 };
	while (size < live * UINT64_C(3) + 2)
		size *= 2;
	const struct table *spare = &tables[!current];

	return spare->entry == NULL || spare->mask + 1ull < size ? table_new(size)
								 : (struct table){ 0 };
}

/* Takes the lock with room for one more in the index. */
static bool take_with_room(struct slot *slot)
{
	struct table made = make_spare();

	if (!lock_take(&sampled_lock, slot->id))
		return false;
	if (is_full(&tables[current])) {
		if (made.entry != NULL && made.mask > tables[!current].mask)
			tables[!current] = made;
		if (tables[!current].entry != NULL && live < (tables[!current].mask + 1) / 4 * 3)
			rebuild();
	}
	if (!is_full(&tables[current]))
		return true;
	lock_give(&sampled_lock);
	return false;
}

/* A free entry; 0 = no memory. */
static uint32_t new_entry(struct slot *slot)
{
	uint32_t id = 0;

	if (__atomic_load_n(&first_free, __ATOMIC_RELAXED) != 0 &&
	    lock_take(&sampled_lock, slot->id)) {
		id = first_free;
		if (id != 0)
			first_free = (uint32_t)entry_of(id)->size_bytes;
		lock_give(&sampled_lock);
	}
	if (id != 0)
		return id;
	uint64_t added = memory_append(LIVE_SAMPLED, 1, sizeof(struct live_sampled));

	return added < GONE - 1 ? (uint32_t)added + 1 : 0;
}

/* Under the lock. */
static void let_go(uint32_t id)
{
	struct live_sampled *entry = entry_of(id);

	__atomic_store_n(&entry->address, 0, __ATOMIC_RELEASE);
	entry->size_bytes = first_free;
	first_free = id;
}

bool sampled_put(struct slot *slot, uintptr_t address, const struct block *block, uint64_t times,
		 struct block *ret_old)
{
	uint32_t id = new_entry(slot);
	bool there = id != 0 && take_with_room(slot);

	ret_old->record = 0;
	if (!there) {
		if (id != 0 && lock_take(&sampled_lock, slot->id)) {
			let_go(id);
			lock_give(&sampled_lock);
		}
		return false;
	}
	struct live_sampled *entry = entry_of(id);
	struct table_entry *before = find(address);

	if (before != NULL) { /* its free was missed */
		const struct live_sampled *old = entry_of(before->id);

		*ret_old = (struct block){ old->record, old->birth_code, old->size_bytes };
		let_go(before->id);
		before->id = GONE;
		live--;
	}
	entry->size_bytes = block->size_bytes;
	entry->record = block->record;
	entry->birth_code = block->birth_code;
	entry->times = times;
	__atomic_store_n(&entry->address, address, __ATOMIC_RELEASE);
	enter(&tables[current], tag_of(address), id);
	live++;
	lock_give(&sampled_lock);
	return true;
}

struct block sampled_take(struct slot *slot, uintptr_t address)
{
	struct block block = { 0 };

	if (!sampled_may_have((const void *)address) || !lock_take(&sampled_lock, slot->id))
		return block;
	struct table_entry *at = find(address);

	if (at != NULL) {
		const struct live_sampled *entry = entry_of(at->id);

		block = (struct block){ entry->record, entry->birth_code, entry->size_bytes };
		let_go(at->id);
		__atomic_store_n(&at->id, (uint32_t)GONE, __ATOMIC_RELEASE);
		live--;
	}
	lock_give(&sampled_lock);
	return block;
}
