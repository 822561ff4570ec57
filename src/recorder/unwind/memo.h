/* SPDX-License-Identifier: Apache-2.0 */
/* A memo of whole walks, beside the incremental one: a program that allocates from the same few stacks in turn finds the
 * record of each without walking. An entry holds every word that its walk read; it counts only if all of them are
 * unchanged, which is the same argument as in walk.h, for a match at the first frame.
 *
 * A row stands for a caller of the hook and its place on the stack. Most have one stack; where several differ, the row
 * learns which words tell them apart ("looks") and finds the entry by those. A look that means nothing for some stack
 * makes it be missed, never mistaken.
 *
 * Entries lie one behind the other in a ring of their slot's. When it is full everything is forgotten: simpler than
 * telling which entries are still whole, and as rare as the ring is large. */
#ifndef RECORDER_UNWIND_MEMO_H
#define RECORDER_UNWIND_MEMO_H

#include "recorder/unwind/modules.h"
#include "recorder/unwind/walk.h"

enum {
	MEMO_ROWS = 512,
	MEMO_PLACES = 4096,
	MEMO_WAYS = 4,
	MEMO_LOOKS = 7,
	MEMO_FRAMES = 64,
	MEMO_CHECKS = 128
};

struct memo_row {
	uintptr_t at, pc; /* where the hook's return address lies, and what it is */
	uint32_t stamp;	  /* of the range that all looks lie in */
	uint32_t looks;
	uint32_t look[MEMO_LOOKS]; /* bytes above `at` */
	uint32_t last;		   /* the entry that was found last, in the ring */
	uint64_t key;		   /* of its entries */
};

/* Behind it, up to `bytes`: pairs of an address and what the walk read there, the innermost frame's last. There are a
 * multiple of four of them: the first one is repeated. */
struct memo_entry {
	uint64_t
		key; /* place and stamp: what was read in another range may not be read again; 0 = no entry */
	uint32_t record, bytes;
};

struct memo {
	struct memo_row row[MEMO_ROWS]; /* row n ^ 1 is the other place for what belongs to row n */
	/* Of an entry in the ring; 0 leads to one that is nobody's. n ^ 1, n ^ 2, n ^ 3 are further places for n. */
	uint32_t place[MEMO_PLACES];
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

/* A memo for a slot; NULL: no memory, or so many slots that they go without. */
struct memo *memo_new(uint32_t slot);

/* Forgets everything: a hook may have been left in the middle of memo_add. */
void memo_forget(struct slot *slot);

/* Remembers the walk that slot->walk holds. */
void memo_add(struct slot *slot, const uintptr_t *frame, uint32_t record);

/* The record of another stack of the row than the last one; 0 = not known. */
uint32_t memo_find_other(const struct memo *memo, struct memo_row *row, uint64_t hash);

static ALWAYS_INLINE uint64_t memo_hash(uintptr_t at, uintptr_t pc)
{
	return (at + pc * 3) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The row of a caller, by its hash; NULL: it has none. */
static ALWAYS_INLINE struct memo_row *memo_row(struct memo *memo, uint64_t hash, uintptr_t at,
					       uintptr_t pc)
{
	uint64_t n = hash >> 32 & (MEMO_ROWS - 1);
	struct memo_row *row = &memo->row[n];

	if (LIKELY(row->at == at && row->pc == pc))
		return row;
	row = &memo->row[n ^ 1];
	return row->at == at && row->pc == pc ? row : NULL;
}

/* Which of the places the stack that is there now belongs to. */
static ALWAYS_INLINE uint64_t memo_place(const struct memo_row *row, uint64_t hash, uintptr_t at)
{
	for (const uint32_t *look = row->look, *end = look + row->looks; look != end; look++)
		hash = (hash ^ *(const volatile uintptr_t *)(at + *look)) *
		       UINT64_C(0x9e3779b97f4a7c15);
	return hash >> 52;
}
_Static_assert(MEMO_PLACES == 1 << 12, "what memo_place shifts by");

static ALWAYS_INLINE struct memo_entry *memo_entry(const struct memo *memo, uint32_t offset)
{
	return (struct memo_entry *)(void *)(memo->ring + offset);
}

/* Whether all words still are where the walk read them. All lie in the range of the stamp. */
static ALWAYS_INLINE bool memo_holds(const struct memo_entry *entry)
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

/* The record of the stack above the hook's caller; 0 = not known. memo: the slot's, or NULL. */
static ALWAYS_INLINE uint32_t memo_find(struct slot *slot, struct memo *memo,
					const uintptr_t *frame)
{
	const struct stack_range *range = &slot->ranges->range[0];
	uintptr_t at = (uintptr_t)(frame + 1);

	if (UNLIKELY(memo == NULL))
		return 0;
	uint64_t hash = memo_hash(at, frame[1]);
	struct memo_row *row = memo_row(memo, hash, at, frame[1]);

	if (UNLIKELY(row == NULL ||
		     memo->generation != __atomic_load_n(&modules_generation, __ATOMIC_RELAXED)))
		return 0;
	/* With the stamp of a range the place is in it. */
	if (UNLIKELY((row->stamp != range->stamp || !stack_range_fresh(range)) &&
		     row->stamp != stack_range_of(slot, at)->stamp))
		return 0;
	const struct memo_entry *entry = memo_entry(memo, row->last);

	if (LIKELY(entry->key == row->key && memo_holds(entry)))
		return entry->record;
	return memo_find_other(memo, row, hash);
}
#endif
