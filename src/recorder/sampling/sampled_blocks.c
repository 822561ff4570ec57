/* SPDX-License-Identifier: Apache-2.0 */
/* See sampled_blocks.h.
 *
 * Owns: LIVE_SAMPLED, whose entries stay where they are, and the index, an open-addressing hash table in scratch memory.
 * Entering a block changes the index under a lock, for which memory is had before. Removing one takes no lock, so that the
 * end of a sample is never lost: whoever clears an entry's address by compare-and-swap has the block.
 *
 * An index that fills up is built anew in another table, the spare one, and the two swap. A reader that was interrupted over
 * two such rebuilds may have looked at a table that was being cleared: `version` tells, and it looks again.
 * Invariant: the index leads to every entry with an address. It may lead to others too: an entry that was removed while the
 * index was being copied is left there until the next copy, so what counts is the address in the entry. */
#include "recorder/sampling/sampled_blocks.h"

#include "recorder/checks/chaos.h"
#include "recorder/lock.h"

enum {
	PLACES_FIRST = 256,
	GONE = UINT32_MAX, /* id of a place that is free again, but others lie behind it */
};

/* A place is a tag of the address (high half) and the number of an entry + 1; 0 = empty. */
struct index {
	uint32_t mask; /* for ever */
	uint32_t used; /* places that are not empty; under the lock */
	uint64_t place[];
};

static struct index *current, *spare;
static uint32_t live;	      /* entries with an address, or a little more */
static uint32_t version;      /* odd: the index is being built anew */
static uint64_t free_entries; /* a stack of ids; the high half counts changes */
static struct lock sampled_blocks_lock;

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
	/* A table that was being made is not in use yet. */
	__atomic_store_n(&version, (version + 1) & ~1u, __ATOMIC_RELEASE);
	lock_recover(&sampled_blocks_lock, slot->id);
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

static uint64_t word_of(uint32_t tag, uint32_t id)
{
	return (uint64_t)tag << 32 | id;
}

/* ---- the index ---- */

bool sampled_blocks_may_have(const void *address)
{
	uint32_t before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
	const struct index *index = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
	uint32_t tag = tag_of((uintptr_t)address), place = place_of(tag);

	if (index == NULL)
		return false;
	for (uint32_t looks = 0; looks <= index->mask; looks++, place++) {
		uint64_t word =
			__atomic_load_n(&index->place[place & index->mask], __ATOMIC_ACQUIRE);

		if (word == 0)
			break;
		if (word >> 32 == tag && (uint32_t)word != GONE)
			return true;
	}
	return __atomic_load_n(&version, __ATOMIC_ACQUIRE) != before;
}

/* The place that leads to the entry of an address, and what it holds; NULL: none. */
static uint64_t *find(struct index *index, uintptr_t address, uint64_t *ret_word)
{
	uint32_t tag = tag_of(address), place = place_of(tag);

	for (uint32_t looks = 0; index != NULL && looks <= index->mask; looks++, place++) {
		uint64_t *at = &index->place[place & index->mask];

		*ret_word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (*ret_word == 0)
			break;
		if (*ret_word >> 32 == tag && (uint32_t)*ret_word != GONE &&
		    __atomic_load_n(&entry_of((uint32_t)*ret_word)->address, __ATOMIC_ACQUIRE) ==
			    address)
			return at;
	}
	return NULL;
}

/* Pre: there is room. Under the lock. */
static void enter(struct index *index, uint64_t word)
{
	uint32_t place = place_of((uint32_t)(word >> 32));
	uint64_t there;

	while ((there = __atomic_load_n(&index->place[place & index->mask], __ATOMIC_RELAXED)) !=
	       0) {
		if (there == word)
			return; /* from when the entry had the same address before */
		place++;
	}
	__atomic_store_n(&index->used, index->used + 1,
			 __ATOMIC_RELAXED); /* first, as in table_put */
	__atomic_store_n(&index->place[place & index->mask], word, __ATOMIC_RELEASE);
}

static bool is_full(const struct index *index)
{
	return index == NULL ||
	       __atomic_load_n(&index->used, __ATOMIC_RELAXED) >= (index->mask + 1) / 4 * 3;
}

static bool leads_to_a_block(uint64_t word)
{
	if (word == 0 || (uint32_t)word == GONE)
		return false;
	uint64_t address = __atomic_load_n(&entry_of((uint32_t)word)->address, __ATOMIC_RELAXED);

	return address != 0 && tag_of(address) == word >> 32;
}

/* The index anew in the spare table, which is large enough. Under the lock. */
static void rebuild(void)
{
	struct index *from = current, *to = spare;

	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__builtin_memset(to->place, 0, (to->mask + 1ull) * sizeof *to->place);
	to->used = 0;
	for (uint64_t i = 0; from != NULL && i <= from->mask; i++) {
		uint64_t word = __atomic_load_n(&from->place[i], __ATOMIC_RELAXED);

		if (leads_to_a_block(word))
			enter(to, word);
	}
	__atomic_store_n(&spare, from, __ATOMIC_RELEASE);
	CHAOS_DELAY();
	__atomic_store_n(&current, to, __ATOMIC_RELEASE);
	__atomic_store_n(&version, version + 1, __ATOMIC_RELEASE);
}

static bool is_larger(const struct index *a, const struct index *b)
{
	return a != NULL && (b == NULL || a->mask > b->mask);
}

/* A table with three times the room that there is need for, if the spare one has not got that. Before the lock is taken. */
static struct index *make_spare(void)
{
	const struct index *have = __atomic_load_n(&spare, __ATOMIC_ACQUIRE);
	uint64_t size = PLACES_FIRST;

	if (!is_full(__atomic_load_n(&current, __ATOMIC_ACQUIRE)))
		return NULL;
	while (size < __atomic_load_n(&live, __ATOMIC_RELAXED) * UINT64_C(3) + 2)
		size *= 2;
	if (have != NULL && have->mask + 1ull >= size)
		return NULL;
	struct index *made = memory_scratch(sizeof *made + size * sizeof *made->place);

	if (made != NULL)
		made->mask = (uint32_t)(size - 1);
	return made;
}

/* Under the lock. */
static void rebuild_if_full(struct index *made)
{
	if (!is_full(current))
		return;
	if (is_larger(made, spare))
		__atomic_store_n(&spare, made, __ATOMIC_RELEASE);
	if (spare != NULL && __atomic_load_n(&live, __ATOMIC_RELAXED) < (spare->mask + 1) / 4 * 3)
		rebuild();
}

/* Takes the lock with room for one more in the index. A thread that was held up on the way may find that the spare table it had seen
 * is full by now, and the one before too small. */
static bool take_with_room(struct slot *slot)
{
	enum { TRIES = 8 };

	for (int i = 0; i < TRIES; i++) {
		struct index *made = make_spare();

		if (!lock_take(&sampled_blocks_lock, slot->id))
			return false;
		rebuild_if_full(made);
		if (!is_full(current))
			return true;
		lock_give(&sampled_blocks_lock);
	}
	return false;
}

/* ---- entries ---- */

/* A free entry; 0 = no memory. */
static uint32_t new_entry(void)
{
	uint64_t first = __atomic_load_n(&free_entries, __ATOMIC_ACQUIRE);

	while ((uint32_t)first != 0) {
		/* Another thread may have it by now: then this is nonsense, and `first` has changed. */
		uint32_t next = (uint32_t)__atomic_load_n(&entry_of((uint32_t)first)->size_bytes,
							  __ATOMIC_RELAXED);

		if (__atomic_compare_exchange_n(&free_entries, &first,
						word_of((uint32_t)(first >> 32) + 1, next), false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return (uint32_t)first;
	}
	uint64_t added = memory_append(LIVE_SAMPLED, 1, sizeof(struct live_sampled));

	return added < GONE - 1 ? (uint32_t)added + 1 : 0;
}

static void let_go(uint32_t id)
{
	uint64_t first = __atomic_load_n(&free_entries, __ATOMIC_RELAXED);

	do
		__atomic_store_n(&entry_of(id)->size_bytes, (uint32_t)first, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&free_entries, &first,
					    word_of((uint32_t)(first >> 32) + 1, id), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Removes the entry that a place leads to; record 0: somebody else was faster. */
static struct block remove_entry(uint64_t *place, uint64_t word, uintptr_t address)
{
	uint32_t id = (uint32_t)word;
	struct live_sampled *entry = entry_of(id);
	struct block block = { entry->record, (uint32_t)entry->times, entry->birth_ms,
			       entry->size_bytes };
	uint64_t there = address;

	CHAOS_DELAY();
	if (!__atomic_compare_exchange_n(&entry->address, &there, 0, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return (struct block){ 0 };
	__atomic_compare_exchange_n(place, &word, word | GONE, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	let_go(id);
	__atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
	return block;
}

/* The free entries are no others, and do not lead in a circle. Where there is one slot, so that nobody takes or frees one. */
static void check_free(uint64_t entries)
{
	uint64_t listed = 0;

	for (uint32_t id = (uint32_t)free_entries; id != 0;
	     id = (uint32_t)entry_of(id)->size_bytes) {
		RECORDER_CHECK(id <= entries && entry_of(id)->address == 0);
		RECORDER_CHECK(++listed <= entries);
	}
}

/* The index leads to every entry with an address; others may remove some meanwhile. Under the lock. */
static void check_sampled(void)
{
	static struct check_pace pace;
	uint64_t entries = memory_used(LIVE_SAMPLED);
	uint64_t filled = 0, there = 0, most = __atomic_load_n(&live, __ATOMIC_ACQUIRE), word;

	(void)most; /* read by the checking build alone */
	if (!check_is_due(&pace))
		return;
	RECORDER_CHECK(!(version & 1));
	for (uint64_t i = 0; i <= current->mask; i++)
		filled += current->place[i] != 0;
	RECORDER_CHECK(filled == current->used);
	for (uint32_t id = 1; id <= entries; id++) {
		const uint64_t *place = &entry_of(id)->address;
		uint64_t address = __atomic_load_n(place, __ATOMIC_ACQUIRE);

		there += address != 0;
		RECORDER_CHECK(address == 0 || find(current, address, &word) != NULL ||
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

	ret_old->record = 0;
	if (id == 0)
		return false;
	if (!take_with_room(slot)) {
		let_go(id);
		return false;
	}
	struct live_sampled *entry = entry_of(id);
	uint64_t word, *before = find(current, address, &word);

	if (before != NULL) /* its free was missed */
		*ret_old = remove_entry(before, word, address);
	/* As new_entry reads it, if it comes too late for this one. */
	__atomic_store_n(&entry->size_bytes, block->size_bytes, __ATOMIC_RELAXED);
	entry->record = block->record;
	entry->birth_ms = block->birth_ms;
	entry->times = block->times;
	__atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->address, address, __ATOMIC_RELEASE);
	enter(current, word_of(tag_of(address), id));
	if (CHECKED)
		check_sampled();
	lock_give(&sampled_blocks_lock);
	return true;
}

struct block sampled_blocks_take(uintptr_t address)
{
	uint32_t before;
	uint64_t word;

	do {
		before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
		uint64_t *at = find(__atomic_load_n(&current, __ATOMIC_ACQUIRE), address, &word);

		if (at != NULL)
			return remove_entry(at, word, address);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* One step on it is still the table that it was: a rebuild writes to the other one. */
	} while (__atomic_load_n(&version, __ATOMIC_RELAXED) - before > 1);
	return (struct block){ 0 };
}
