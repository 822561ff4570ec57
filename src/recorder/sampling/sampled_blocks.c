/* SPDX-License-Identifier: Apache-2.0 */
/* See sampled_blocks.h.
 *
 * Owns: LIVE_SAMPLED, whose entries never move, and the index, a table of their ids. Inserting changes the index under a lock;
 * memory is allocated before the lock is taken. Removing takes no lock, so that the end of a sample is never lost: the thread that
 * clears an entry's address by compare-and-swap owns the block.
 *
 * A full index is rebuilt in another table, the spare one, and the two swap. A reader that was preempted for two rebuilds may have
 * searched a table that was being cleared: `version` shows it, and the search is repeated. Invariant: the index contains every
 * entry with an address. It may contain others: an entry removed while the index is being copied stays there until the next copy,
 * so the address in the entry decides. */
#include "recorder/sampling/sampled_blocks.h"

#include "recorder/checks/chaos.h"
#include "recorder/lock.h"
#include "recorder/table.h"

enum { TOMBSTONE = UINT32_MAX }; /* id of a deleted index entry */

static PROCESS_STATE struct table *current, *spare; /* entry and mask of each never change */
static PROCESS_STATE uint32_t live;		    /* entries with an address, or slightly more */
static PROCESS_STATE uint32_t version;		    /* odd: the index is being rebuilt */
static PROCESS_STATE uint64_t free_entries; /* a free list of ids; the upper half counts changes */
static PROCESS_STATE struct lock sampled_blocks_lock;

static struct live_sampled *entry_of(uint32_t id)
{
	return (struct live_sampled *)(void *)memory.region[LIVE_SAMPLED] + (id - 1);
}

void sampled_blocks_reset(void)
{
	current = spare = NULL;
	live = version = 0;
	free_entries = 0;
	sampled_blocks_lock = (struct lock){ 0 };
}

void sampled_blocks_recover(struct slot *slot)
{
	if (!lock_is_mine(&sampled_blocks_lock, slot->id))
		return;
	/* A table that was being built is not in use yet. */
	__atomic_store_n(&version, (version + 1) & ~1u, __ATOMIC_RELEASE);
	lock_recover(&sampled_blocks_lock, slot->id);
}

/* Blocks are 16 bytes apart. */
static uint32_t tag_of(uintptr_t address)
{
	return table_tag((uint32_t)(address >> 4) * UINT64_C(0x9e3779b97f4a7c15));
}

/* ---- the index ---- */

/* The next entry in the index that may match an address; 0: none. */
static ALWAYS_INLINE uint32_t next_entry(const struct table *index, uint32_t tag, uint32_t *place)
{
	uint32_t id;

	do
		id = index != NULL ? table_next(index, tag, place) : 0;
	while (id == TOMBSTONE);
	return id;
}

bool sampled_blocks_may_have(const void *address)
{
	uint32_t before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
	const struct table *index = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
	uint32_t tag = tag_of((uintptr_t)address), place = tag;

	if (next_entry(index, tag, &place) != 0)
		return true;
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* as in find_unlocked */
	return __atomic_load_n(&version, __ATOMIC_RELAXED) != before;
}

/* Returns the entry of an address; 0: none. ret_place: just after its index entry. */
static uint32_t find(const struct table *index, uintptr_t address, uint32_t *ret_place)
{
	uint32_t tag = tag_of(address), id;

	*ret_place = tag;
	do
		id = next_entry(index, tag, ret_place);
	while (id != 0 && __atomic_load_n(&entry_of(id)->address, __ATOMIC_ACQUIRE) != address);
	return id;
}

/* Pre: the index is not full. Under the lock. */
static void enter(struct table *index, uint32_t tag, uint32_t id)
{
	uint32_t place = tag, there;

	do
		there = next_entry(index, tag, &place);
	while (there != 0 && there != id); /* there if the entry had the same address before */
	if (there == 0)
		table_put(index, tag, id);
}

static bool is_full(const struct table *index)
{
	return index == NULL ||
	       __atomic_load_n(&index->used, __ATOMIC_RELAXED) >= (index->mask + 1) / 4 * 3;
}

static bool leads_to_a_block(uint32_t tag, uint32_t id)
{
	if (id == 0 || id == TOMBSTONE)
		return false;
	uint64_t address = __atomic_load_n(&entry_of(id)->address, __ATOMIC_RELAXED);

	return address != 0 && tag_of(address) == tag;
}

/* Rebuilds the index in the spare table, which is large enough. Under the lock. */
static void rebuild(void)
{
	struct table *from = current, *to = spare;

	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	table_clear(to);
	for (uint64_t i = 0; from != NULL && i <= from->mask; i++) {
		uint32_t id = __atomic_load_n(&from->entry[i].id, __ATOMIC_RELAXED);

		if (leads_to_a_block(from->entry[i].tag, id))
			enter(to, from->entry[i].tag, id);
	}
	__atomic_store_n(&spare, from, __ATOMIC_RELEASE);
	CHAOS_DELAY();
	__atomic_store_n(&current, to, __ATOMIC_RELEASE);
	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
}

static bool is_larger(const struct table *a, const struct table *b)
{
	return a != NULL && (b == NULL || a->mask > b->mask);
}

/* Allocates a table with three times the needed capacity, if the spare one is smaller. Before the lock is taken. */
static struct table *make_spare(void)
{
	const struct table *have = __atomic_load_n(&spare, __ATOMIC_ACQUIRE);
	uint64_t size = TABLE_FIRST;

	if (!is_full(__atomic_load_n(&current, __ATOMIC_ACQUIRE)))
		return NULL;
	while (size < __atomic_load_n(&live, __ATOMIC_RELAXED) * UINT64_C(3) + 2)
		size *= 2;
	if (have != NULL && have->mask + 1ull >= size)
		return NULL;
	struct table *made = memory_scratch(sizeof *made + size * sizeof *made->entry);

	if (made != NULL)
		*made = (struct table){ (struct table_entry *)(made + 1), (uint32_t)(size - 1), 0 };
	return made;
}

/* Under the lock. */
static void rebuild_if_full(struct table *made)
{
	if (!is_full(current))
		return;
	if (is_larger(made, spare))
		__atomic_store_n(&spare, made, __ATOMIC_RELEASE);
	if (spare != NULL && __atomic_load_n(&live, __ATOMIC_RELAXED) < (spare->mask + 1) / 4 * 3)
		rebuild();
}

/* Takes the lock with room for one more index entry. If a thread is delayed on the way, the spare table it had seen may be full by
 * now, and the previous one too small. */
static bool acquire_with_capacity(struct slot *slot)
{
	enum { TRIES = 8 };

	for (int i = 0; i < TRIES; i++) {
		struct table *made = make_spare();

		if (!lock_acquire(&sampled_blocks_lock, slot->id))
			return false;
		rebuild_if_full(made);
		if (!is_full(current))
			return true;
		lock_release(&sampled_blocks_lock);
	}
	return false;
}

/* ---- entries ---- */

/* The new head of the free list with another id on top. */
static uint64_t changed(uint64_t first, uint32_t id)
{
	return ((first >> 32) + 1) << 32 | id;
}

/* A free entry; 0 = no memory. */
static uint32_t new_entry(void)
{
	uint64_t first = __atomic_load_n(&free_entries, __ATOMIC_ACQUIRE);

	while ((uint32_t)first != 0) {
		/* Another thread may have taken it: then this value is garbage, and `first` has changed. */
		uint32_t next = (uint32_t)__atomic_load_n(&entry_of((uint32_t)first)->size_bytes,
							  __ATOMIC_RELAXED);

		if (__atomic_compare_exchange_n(&free_entries, &first, changed(first, next), false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return (uint32_t)first;
	}
	uint64_t added = memory_append(LIVE_SAMPLED, 1, sizeof(struct live_sampled));

	return added < TOMBSTONE - 1 ? (uint32_t)added + 1 : 0;
}

static void release_entry(uint32_t id)
{
	uint64_t first = __atomic_load_n(&free_entries, __ATOMIC_RELAXED);

	do
		__atomic_store_n(&entry_of(id)->size_bytes, (uint32_t)first, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&free_entries, &first, changed(first, id), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Removes an entry, `place` from find; counters 0: another thread removed it first. */
static struct block remove_entry(const struct table *index, uint32_t place, uint32_t id,
				 uintptr_t address)
{
	struct live_sampled *entry = entry_of(id);
	struct block block = { entry->counters, (uint32_t)entry->weight, entry->birth_ms,
			       entry->size_bytes };
	uint64_t there = address;

	CHAOS_DELAY();
	if (!__atomic_compare_exchange_n(&entry->address, &there, 0, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return (struct block){ 0 };
	uint32_t leads_to = id;

	__atomic_compare_exchange_n(&index->entry[(place - 1) & index->mask].id, &leads_to,
				    TOMBSTONE, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	release_entry(id);
	__atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
	return block;
}

/* Checks that the free list has only free entries and no cycle. With one slot only, so that nobody changes it. */
static void check_free(uint64_t entries)
{
	uint64_t listed = 0;

	for (uint32_t id = (uint32_t)free_entries; id != 0;
	     id = (uint32_t)entry_of(id)->size_bytes) {
		RECORDER_CHECK(id <= entries && entry_of(id)->address == 0);
		RECORDER_CHECK(++listed <= entries);
	}
}

/* Checks that the index contains every entry with an address; others may remove some meanwhile. Under the lock. */
static void check_sampled(void)
{
	static struct check_pace pace;
	uint64_t entries = memory_used(LIVE_SAMPLED);
	uint64_t there = 0, most = __atomic_load_n(&live, __ATOMIC_ACQUIRE);
	uint32_t at;

	(void)most; /* used in the checking build only */
	if (!check_is_due(&pace))
		return;
	RECORDER_CHECK(!(version & 1));
	RECORDER_CHECK(table_check(current));
	for (uint32_t id = 1; id <= entries; id++) {
		const uint64_t *place = &entry_of(id)->address;
		uint64_t address = __atomic_load_n(place, __ATOMIC_ACQUIRE);

		there += address != 0;
		RECORDER_CHECK(address == 0 || find(current, address, &at) != 0 ||
			       __atomic_load_n(place, __ATOMIC_ACQUIRE) != address);
	}
	RECORDER_CHECK(there <= most);
	if (memory_used(LIVE_SLOTS) == 1)
		check_free(entries);
	check_done(&pace, current->mask + 2 * entries);
}

bool sampled_blocks_put(struct slot *slot, uintptr_t address, const struct block *block,
			struct block *ret_old)
{
	uint32_t id = new_entry();

	ret_old->counters = 0;
	if (id == 0)
		return false;
	if (!acquire_with_capacity(slot)) {
		release_entry(id);
		return false;
	}
	struct live_sampled *entry = entry_of(id);
	uint32_t place, before = find(current, address, &place);

	if (before != 0) /* its free was missed */
		*ret_old = remove_entry(current, place, before, address);
	/* Atomic, because a delayed new_entry may still read it. */
	__atomic_store_n(&entry->size_bytes, block->size_bytes, __ATOMIC_RELAXED);
	entry->counters = block->counters;
	entry->birth_ms = block->birth_ms;
	entry->weight = block->weight;
	__atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->address, address, __ATOMIC_RELEASE);
	enter(current, tag_of(address), id);
	if (CHECKED)
		check_sampled();
	lock_release(&sampled_blocks_lock);
	return true;
}

/* Like find, without the lock, in the current index. */
static uint32_t find_unlocked(uintptr_t address, const struct table **ret_index,
			      uint32_t *ret_place)
{
	uint32_t before, id;

	do {
		before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
		*ret_index = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
		id = find(*ret_index, address, ret_place);
		if (id != 0)
			return id;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* One step later it is still the same table: a rebuild writes to the other one. */
	} while (__atomic_load_n(&version, __ATOMIC_RELAXED) - before > 1);
	return 0;
}

bool sampled_blocks_has(uintptr_t address)
{
	const struct table *index;
	uint32_t place;

	return find_unlocked(address, &index, &place) != 0;
}

struct block sampled_blocks_take(uintptr_t address)
{
	const struct table *index;
	uint32_t place, id = find_unlocked(address, &index, &place);

	return id != 0 ? remove_entry(index, place, id, address) : (struct block){ 0 };
}
