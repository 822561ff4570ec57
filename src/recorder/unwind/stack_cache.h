/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of whole walks, beside the incremental one: a program that allocates from the same few stacks in turn finds the
 * site counters of each without walking. An entry holds every word that its walk read; it counts only if all of them are
 * unchanged, which is the same argument as in walk.h, for a match at the first frame.
 *
 * A row stands for a caller of the hook and its place on the stack. Most have one stack; where several differ, the row
 * learns which words differ (the discriminators) and finds the entry by those. One that means nothing for some stack
 * causes a miss, never a wrong hit.
 *
 * Entries lie one behind the other in a ring of their slot's. When it is full everything is forgotten: simpler than
 * tracking which entries are still whole, and as rare as the ring is large. */
#ifndef RECORDER_UNWIND_STACK_CACHE_H
#define RECORDER_UNWIND_STACK_CACHE_H

#include "recorder/unwind/modules.h"
#include "recorder/unwind/walk.h"

enum {
	STACK_CACHE_ROWS = 512,
	STACK_CACHE_PLACES = 1 << 12,
	STACK_CACHE_WAYS = 4,
	STACK_CACHE_DISCRIMINATORS = 7,
	STACK_CACHE_FRAMES = 64,
	STACK_CACHE_CHECKS = 128
};

struct stack_cache_row {
	uintptr_t at, pc; /* where the hook's return address lies, and what it is */
	uint32_t stamp;	  /* of the range that all discriminators lie in */
	uint32_t discriminators;
	uint32_t discriminator[STACK_CACHE_DISCRIMINATORS]; /* bytes above `at` */
	uint32_t last; /* the entry that was found last, in the ring */
	uint64_t key;  /* of its entries */
};

/* Behind it, up to `bytes`: pairs of an address and what the walk read there, the innermost frame's last. There are a
 * multiple of four of them: the first one is repeated. */
struct stack_cache_entry {
	uint64_t
		key; /* place and stamp: what was read in another range may not be read again; 0 = no entry */
	uint32_t
		counters; /* the site counters of the stack; 0: it has none of its own, but frames of an interpreter */
	uint32_t bytes;
	uint64_t hash; /* of the walk */
	uint64_t pad;
};

struct stack_cache {
	struct stack_cache_row
		row[STACK_CACHE_ROWS]; /* row n ^ 1 is the other place for what belongs to row n */
	/* Of an entry in the ring; 0 leads to one that is nobody's. n ^ 1, n ^ 2, n ^ 3 are further places for n. */
	uint32_t place[STACK_CACHE_PLACES];
	uint32_t generation;  /* of modules_generation */
	uint32_t epoch;	      /* the part of all stamps that is not in the keys */
	uint32_t used, bytes; /* of the ring; entries begin at multiples of 16 */
	uint32_t added,
		missed; /* since the ring was empty: walks that were added, and that were made */
	uint32_t rest;	/* walks to let pass before the next one is added */
	uint64_t calls; /* the slot's calls when the ring was empty */
	char *ring;
	bool is_touched; /* something was entered, or begun to be */
};

/* Memory for the cache of a slot, not touched; NULL: no memory, or so many slots that they go without. With the slot and not when the
 * cache begins: a child that a signal handler makes by clone inside a hook goes on in that hook with its parent's slot, and what its
 * parent opens later is not open there. (After fork it has a copy: hooks_fork.c.) */
struct stack_cache *stack_cache_memory(uint32_t slot);

/* Forgets everything: a hook may have been left in the middle of stack_cache_add. */
void stack_cache_forget(struct slot *slot);

/* Remembers the walk that slot->walk holds. The first ones of a thread are not: it has no cache yet. counters: as in the entry. */
void stack_cache_add(struct slot *slot, const uintptr_t *frame, uint32_t counters);

/* Another stack of the row than the last one; NULL: not known. */
const struct stack_cache_entry *stack_cache_find_other(const struct stack_cache *stack_cache,
						       struct stack_cache_row *row, uint64_t hash);

static ALWAYS_INLINE uint64_t stack_cache_hash(uintptr_t at, uintptr_t pc)
{
	return (at + pc * 3) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The row of a caller, by its hash; NULL: it has none. */
static ALWAYS_INLINE struct stack_cache_row *stack_cache_row(struct stack_cache *stack_cache,
							     uint64_t hash, uintptr_t at,
							     uintptr_t pc)
{
	uint64_t n = hash >> 32 & (STACK_CACHE_ROWS - 1);
	struct stack_cache_row *row = &stack_cache->row[n];

	if (LIKELY(row->at == at && row->pc == pc))
		return row;
	row = &stack_cache->row[n ^ 1];
	return row->at == at && row->pc == pc ? row : NULL;
}

/* Which of the places the stack that is there now belongs to. */
static ALWAYS_INLINE uint64_t stack_cache_place(const struct stack_cache_row *row, uint64_t hash,
						uintptr_t at)
{
	for (const uint32_t *offset = row->discriminator, *end = offset + row->discriminators;
	     offset != end; offset++)
		hash = (hash ^ *(const volatile uintptr_t *)(at + *offset)) *
		       UINT64_C(0x9e3779b97f4a7c15);
	return hash >> 52;
}
_Static_assert(STACK_CACHE_PLACES == 1 << 12, "what stack_cache_place shifts by");

static ALWAYS_INLINE struct stack_cache_entry *stack_cache_entry(
	const struct stack_cache *stack_cache, uint32_t offset)
{
	return (struct stack_cache_entry *)(void *)(stack_cache->ring + offset);
}

/* Whether all words still are where the walk read them. All lie in the range of the stamp. */
static ALWAYS_INLINE bool stack_cache_holds(const struct stack_cache_entry *entry)
{
	const char *end = (const char *)entry + entry->bytes;
	const uintptr_t *pair = (const uintptr_t *)(const void *)end;

	do { /* innermost first: what changes most is seen first */
		pair -= 8;
		uintptr_t changed = *(const volatile uintptr_t *)pair[6] ^ pair[7];

		changed |= *(const volatile uintptr_t *)pair[4] ^ pair[5];
		changed |= *(const volatile uintptr_t *)pair[2] ^ pair[3];
		changed |= *(const volatile uintptr_t *)pair[0] ^ pair[1];
		if (UNLIKELY(changed != 0))
			return false;
	} while ((const void *)pair != (const void *)(entry + 1));
	return true;
}

/* The stack above the hook's caller; NULL: not known. stack_cache: the slot's, or NULL. */
static ALWAYS_INLINE const struct stack_cache_entry *stack_cache_find(
	struct slot *slot, struct stack_cache *stack_cache, const uintptr_t *frame)
{
	const struct stack_range *range = &slot->ranges->range[0];
	uintptr_t at = (uintptr_t)(frame + 1);

	if (UNLIKELY(stack_cache == NULL))
		return NULL;
	uint64_t hash = stack_cache_hash(at, frame[1]);
	struct stack_cache_row *row = stack_cache_row(stack_cache, hash, at, frame[1]);

	if (UNLIKELY(row == NULL || stack_cache->generation !=
					    __atomic_load_n(&modules_generation, __ATOMIC_RELAXED)))
		return NULL;
	/* With the stamp of a range the place is in it. */
	if (UNLIKELY((row->stamp != range->stamp || !stack_range_fresh(range)) &&
		     row->stamp != stack_range_of(slot, at)->stamp))
		return NULL;
	const struct stack_cache_entry *entry = stack_cache_entry(stack_cache, row->last);

	if (LIKELY(entry->key == row->key && stack_cache_holds(entry)))
		return entry;
	return stack_cache_find_other(stack_cache, row, hash);
}
#endif
