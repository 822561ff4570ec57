/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of ids in scratch memory: open addressing, with 32 bits of the hash beside each id, so that neither probing nor
 * growing reads the objects that the ids denote. Outgrown tables are never freed; together they are smaller than the current
 * one. The owner provides locking and knows what the ids mean. */
#ifndef RECORDER_TABLE_H
#define RECORDER_TABLE_H

#include <stdbool.h>

#include "recorder/checks/chaos.h"
#include "recorder/memory.h"

struct table_entry {
	uint32_t tag; /* upper half of the hash */
	uint32_t id;  /* 0 = empty */
};

struct table {
	struct table_entry *entry;
	uint32_t mask, used;
};

enum { TABLE_FIRST = 256 };

/* Returns an empty table; entry is NULL if there is no memory. */
static inline struct table table_new(uint64_t size)
{
	return (struct table){ .entry = memory_scratch(size * sizeof(struct table_entry)),
			       .mask = (uint32_t)(size - 1) };
}

/* Empties it in place. */
static inline void table_clear(struct table *table)
{
	__builtin_memset(table->entry, 0, (table->mask + 1ull) * sizeof *table->entry);
	table->used = 0;
}

static inline uint32_t table_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/* Iterates over the entries with a tag: while (table_next(...)) { is it this id? } *place starts as table_tag(hash). */
static ALWAYS_INLINE uint32_t table_next(const struct table *table, uint32_t tag, uint32_t *place)
{
	for (;;) {
		const struct table_entry *entry = &table->entry[*place & table->mask];
		uint32_t id = __atomic_load_n(&entry->id, __ATOMIC_ACQUIRE);

		++*place;
		if (id == 0 || entry->tag == tag)
			return id;
	}
}

/* A view for lookups while another thread may change the table: it may miss an id that is in the table. Before its first entries are
 * there, the view has none: with a mask of 0, a search in the entries that come next might never end. */
static inline struct table table_view(const struct table *table)
{
	struct table view = { .mask = __atomic_load_n(&table->mask, __ATOMIC_ACQUIRE) };

	if (view.mask != 0)
		view.entry = __atomic_load_n(&table->entry, __ATOMIC_ACQUIRE);
	return view;
}

static inline void table_put(struct table *table, uint32_t tag, uint32_t id)
{
	uint32_t i = tag & table->mask;

	RECORDER_CHECK(id != 0 && table->used < table->mask);
	while (__atomic_load_n(&table->entry[i].id, __ATOMIC_RELAXED) != 0)
		i = (i + 1) & table->mask;
	/* Count first: siglongjmp may abandon a hook in between, and with too
	 * low a count the table would fill up and a search would never end. */
	__atomic_store_n(&table->used, table->used + 1, __ATOMIC_RELAXED);
	table->entry[i].tag = tag;
	__atomic_store_n(&table->entry[i].id, id, __ATOMIC_RELEASE);
}

/* True if every entry is reachable from its tag's home position and the count is right. */
static inline bool table_check(const struct table *table)
{
	uint32_t filled = 0;

	for (uint64_t i = 0; i <= table->mask; i++) {
		const struct table_entry *entry = &table->entry[i];
		uint32_t place = entry->tag;

		filled += entry->id != 0;
		while (entry->id != 0 && (place & table->mask) != i) {
			if (table->entry[place++ & table->mask].id == 0)
				return false;
		}
	}
	return filled == table->used && filled <= table->mask;
}

/* Tables grow when three quarters full; without memory they are filled to seven eighths. */
static inline bool table_is_full(const struct table *table)
{
	return table->used >= (table->mask + 1) / 8 * 7;
}

/* Returns a larger table with room for `more` further ids, to be filled by table_move; its entry is NULL if none is needed, or
 * if `scratch` has no memory. Two steps, because memory is allocated before a lock is taken. */
typedef void *table_scratch(uint64_t bytes);
static inline struct table table_larger(const struct table *table, uint64_t more,
					table_scratch *scratch)
{
	uint64_t size = (uint64_t)__atomic_load_n(&table->mask, __ATOMIC_RELAXED) + 1;
	uint64_t wanted = __atomic_load_n(&table->used, __ATOMIC_RELAXED) + more;

	if (wanted <= size / 4 * 3)
		return (struct table){ 0 };
	while (wanted > size / 4 * 3)
		size *= 2;
	return (struct table){ .entry = scratch(size * sizeof(struct table_entry)),
			       .mask = (uint32_t)(size - 1) };
}

/* Stores the mask last: a lookup without the lock never uses a mask larger than its entries. */
static inline void table_replace(struct table *table, struct table larger)
{
	__atomic_store_n(&table->entry, larger.entry, __ATOMIC_RELEASE);
	CHAOS_DELAY();
	__atomic_store_n(&table->used, larger.used, __ATOMIC_RELAXED);
	__atomic_store_n(&table->mask, larger.mask, __ATOMIC_RELEASE);
}

static inline void table_move(struct table *table, struct table larger)
{
	for (uint64_t i = 0; i <= table->mask; i++) {
		if (table->entry[i].id != 0)
			table_put(&larger, table->entry[i].tag, table->entry[i].id);
	}
	table_replace(table, larger);
}
#endif
