/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of whole walks, in addition to the incremental walk: a program that allocates from the same few stacks in turn finds the
 * site counters of each without walking. An entry holds every word that its walk read and hits only if all of them are unchanged;
 * this is sound for the same reason as in walk.h, for a match at the first frame.
 *
 * A row represents a caller of the hook at one stack address. Most rows have one stack; if several occur, the row learns which
 * words differ (the discriminators) and finds the entry by those. A discriminator that is meaningless for some stack causes a miss,
 * never a false hit.
 *
 * Entries are appended to a per-slot ring. When it is full, everything is dropped: simpler than tracking which entries are intact,
 * and rare because the ring is large. */
#ifndef RECORDER_UNWIND_STACK_CACHE_H
#define RECORDER_UNWIND_STACK_CACHE_H

#include "recorder/unwind/modules.h"
#include "recorder/unwind/walk.h"

enum {
	STACK_CACHE_ROWS = 512,
	STACK_CACHE_SETS = 1 << 12,
	STACK_CACHE_WAYS = 4,
	STACK_CACHE_DISCRIMINATORS = 7,
	STACK_CACHE_FRAMES = 64,
	STACK_CACHE_CHECKS = 128
};

struct stack_cache_row {
	uintptr_t at;	  /* of the hook's return address */
	uintptr_t caller; /* that return address + enum live_entry */
	uint32_t stamp;	  /* of the range that contains all discriminators */
	uint32_t discriminators;
	uint32_t discriminator[STACK_CACHE_DISCRIMINATORS]; /* bytes above `at` */
	uint32_t last; /* offset of the entry found last, in the ring */
	uint64_t key;  /* key of its entries */
};

/* Followed, up to `bytes`, by pairs of an address and the word that the walk read there, the innermost frame's last; padded to a
 * multiple of four pairs by repeating the first. */
struct stack_cache_entry {
	uint64_t
		key; /* address + enum live_entry, and range stamp: another range may be unreadable; 0 = no entry */
	uint32_t counters; /* site counters of the stack; 0: it may have interpreter frames */
	uint32_t bytes;
	uint64_t hash; /* of the walk */
	uint64_t pad;
};

struct stack_cache {
	struct stack_cache_row row[STACK_CACHE_ROWS]; /* row n ^ 1 is the alternative to row n */
	/* Offset of an entry in the ring; 0 leads to an unused one. n ^ 1, n ^ 2, n ^ 3 are the other ways of n. */
	uint32_t place[STACK_CACHE_SETS];
	uint32_t generation;	/* of modules_generation */
	uint32_t epoch;		/* the bits of all stamps that are not in the keys */
	uint32_t used, bytes;	/* of the ring; entries are 16-byte aligned */
	uint32_t added, missed; /* walks added and walks made since the ring was empty */
	uint32_t rest;		/* walks to skip before the next one is added */
	uint64_t calls;		/* the slot's calls when the ring was last empty */
	char *ring;
	bool is_touched; /* something was inserted, perhaps partly */
};

/* Reserves untouched memory for the cache of a slot; NULL: no memory, or too many slots. Done with the slot and not on first use: a
 * child that a signal handler clones inside a hook continues that hook with its parent's slot, and memory that the parent opens
 * later is not open there. (After fork it has a copy: hooks_fork.c.) */
struct stack_cache *stack_cache_memory(uint32_t slot);

/* Drops everything: a hook may have been abandoned inside stack_cache_add. */
void stack_cache_forget(struct slot *slot);

/* Adds the walk in slot->walk. The first walks of a thread are not cached. counters: as in the entry. */
void stack_cache_add(struct slot *slot, const uintptr_t *frame, uint32_t counters,
		     enum live_entry entry_point);

/* Looks for another stack of the row than the last one; NULL: miss. */
const struct stack_cache_entry *stack_cache_find_other(const struct stack_cache *stack_cache,
						       struct stack_cache_row *row, uint64_t hash);

static ALWAYS_INLINE uint64_t stack_cache_hash(uintptr_t at, uintptr_t caller)
{
	return (at + caller * 3) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The row of a caller, by its hash; NULL: none. */
static ALWAYS_INLINE struct stack_cache_row *stack_cache_row(struct stack_cache *stack_cache,
							     uint64_t hash, uintptr_t at,
							     uintptr_t caller)
{
	uint64_t n = hash >> 32 & (STACK_CACHE_ROWS - 1);
	struct stack_cache_row *row = &stack_cache->row[n];

	if (LIKELY(row->at == at && row->caller == caller))
		return row;
	row = &stack_cache->row[n ^ 1];
	return row->at == at && row->caller == caller ? row : NULL;
}

/* The set of ways for the current stack. */
static ALWAYS_INLINE uint64_t stack_cache_set(const struct stack_cache_row *row, uint64_t hash,
					      uintptr_t at)
{
	for (const uint32_t *offset = row->discriminator, *end = offset + row->discriminators;
	     offset != end; offset++)
		hash = (hash ^ *(const volatile uintptr_t *)(at + *offset)) *
		       UINT64_C(0x9e3779b97f4a7c15);
	return hash >> 52;
}
_Static_assert(STACK_CACHE_SETS == 1 << 12, "what stack_cache_set shifts by");

static ALWAYS_INLINE struct stack_cache_entry *stack_cache_entry(
	const struct stack_cache *stack_cache, uint32_t offset)
{
	return (struct stack_cache_entry *)(void *)(stack_cache->ring + offset);
}

/* True if all words that the walk read are unchanged. They all lie in the range of the stamp. */
static ALWAYS_INLINE bool stack_cache_holds(const struct stack_cache_entry *entry)
{
	const char *end = (const char *)entry + entry->bytes;
	const uintptr_t *pair = (const uintptr_t *)(const void *)end;

	do { /* innermost first, where changes are most likely */
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

/* Looks up the stack above the hook's caller; NULL: miss. stack_cache: the slot's, or NULL. */
static ALWAYS_INLINE const struct stack_cache_entry *stack_cache_find(
	struct slot *slot, struct stack_cache *stack_cache, const uintptr_t *frame,
	enum live_entry entry_point)
{
	const struct stack_range *range = &slot->ranges->range[0];
	uintptr_t at = (uintptr_t)(frame + 1), caller = frame[1] + entry_point;

	if (UNLIKELY(stack_cache == NULL))
		return NULL;
	uint64_t hash = stack_cache_hash(at, caller);
	struct stack_cache_row *row = stack_cache_row(stack_cache, hash, at, caller);

	if (UNLIKELY(row == NULL || stack_cache->generation !=
					    __atomic_load_n(&modules_generation, __ATOMIC_RELAXED)))
		return NULL;
	/* If the range has the row's stamp, it contains `at`. */
	if (UNLIKELY((row->stamp != range->stamp || !stack_range_fresh(range)) &&
		     row->stamp != stack_range_of(slot, at)->stamp))
		return NULL;
	const struct stack_cache_entry *entry = stack_cache_entry(stack_cache, row->last);

	if (LIKELY(entry->key == row->key && stack_cache_holds(entry)))
		return entry;
	return stack_cache_find_other(stack_cache, row, hash);
}
#endif
