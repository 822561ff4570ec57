/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the memo. Owns the slots' memos; each is its own thread's alone.
 *
 * Invariant: a place leads to a whole entry of the ring, the first of which is nobody's. */
#include "recorder/unwind/memo.h"

enum {
	RING_FIRST = 256 * 1024,
	RING_OTHERS = 64 * 1024,
	SLOTS_WITH_MEMO = 64,
	WORTH = 8, /* a ring of walks of which less than one in so many came again is not worth filling */
	REST = 16,	  /* then this many times as many pass before the next attempt */
	STAMP_SHIFT = 48, /* above any address */
};

_Static_assert(sizeof(struct memo_entry) == 16 && sizeof(struct memo_row) == 64,
	       "aligned as their tables");

struct memo *memo_new(uint32_t slot)
{
	uint32_t bytes = slot == 0 ? RING_FIRST : RING_OTHERS;
	struct memo *memo = slot < SLOTS_WITH_MEMO ? memory_scratch(sizeof *memo + bytes) : NULL;

	if (memo == NULL)
		return NULL;
	memo->ring = (char *)(memo + 1);
	memo->bytes = bytes;
	memo->used = sizeof(struct memo_entry);
	return memo;
}

void memo_forget(struct slot *slot)
{
	struct memo *memo = slot->memo;

	if (memo == NULL)
		return;
	if (memo->is_touched) { /* else a process that allocates once would have all of its pages */
		__builtin_memset(memo->place, 0, sizeof memo->place);
		__builtin_memset(memo->row, 0, sizeof memo->row);
	}
	memo->is_touched = false;
	memo->used = sizeof(struct memo_entry);
	memo->added = memo->missed = 0;
	memo->calls = slot->live->calls;
}

/* The ring is full. */
static void begin_again(struct slot *slot)
{
	struct memo *memo = slot->memo;
	uint64_t found = slot->live->calls - memo->calls - memo->missed;

	memo->rest = found < memo->added / WORTH ? memo->added * REST : 0;
	memo_forget(slot);
}

NOINLINE uint32_t memo_find_other(const struct memo *memo, struct memo_row *row, uint64_t hash)
{
	uint64_t place = memo_place(row, hash, row->at);

	for (uint64_t way = 0; way < MEMO_WAYS; way++) {
		uint32_t offset = memo->place[place ^ way];
		const struct memo_entry *entry = memo_entry(memo, offset);

		if (entry->key == row->key && memo_holds(entry)) {
			row->last = offset;
			return entry->record;
		}
	}
	return 0;
}

/* The caller's row, in the place of another's if need be. */
static struct memo_row *row_for(struct memo *memo, const struct walk *walk, uintptr_t at,
				uintptr_t pc)
{
	uint64_t hash = memo_hash(at, pc);
	struct memo_row *row = memo_row(memo, hash, at, pc);

	if (row != NULL && row->stamp == walk->stamp)
		return row;
	if (row == NULL) {
		uint64_t n = hash >> 32 & (MEMO_ROWS - 1);

		row = &memo->row[memo->row[n].at != 0 ? n ^ 1 : n];
	}
	*row = (struct memo_row){ .at = at,
				  .pc = pc,
				  .stamp = walk->stamp,
				  .key = at | (uint64_t)walk->stamp << STAMP_SHIFT };
	return row;
}

/* Two stacks of one row came to one place: the first word in which they differ, seen from inside, tells them apart from
 * now on. */
static void learn_look(struct memo_row *row, const struct memo_entry *a, const struct memo_entry *b)
{
	const uintptr_t *x = (const uintptr_t *)(const void *)((const char *)a + a->bytes) - 2;
	const uintptr_t *y = (const uintptr_t *)(const void *)((const char *)b + b->bytes) - 2;
	uint32_t left = (MIN(a->bytes, b->bytes) - (uint32_t)sizeof *a) / 16;

	for (; left > 0 && x[0] == y[0] && x[1] == y[1]; left--, x -= 2, y -= 2)
		;
	if (left == 0 || x[0] != y[0] || row->looks == MEMO_LOOKS)
		return;
	uint32_t look = (uint32_t)(x[0] - row->at);

	for (uint32_t k = 0; k < row->looks; k++) {
		if (row->look[k] == look)
			return; /* they do differ there: one place for two hashes */
	}
	row->look[row->looks++] = look;
}

static void fill(struct memo_entry *entry, const struct walk *walk, const uintptr_t *frame)
{
	struct walk_frame *pair = (struct walk_frame *)(void *)(entry + 1);
	const struct walk_frame rbp = { (uintptr_t)frame,
					frame[0] }; /* where the hook has saved it */
	bool needs_rbp = walk->info[walk->count - 1].rule & WALK_NEEDS_RBP;

	for (uint32_t n = walk->count + walk->checks + needs_rbp; n % 4 != 0; n++)
		*pair++ = walk->frame[0];
	for (uint32_t i = 0; i < walk->checks; i++)
		*pair++ = (struct walk_frame){ walk->check[i].at, walk->check[i].word };
	if (needs_rbp)
		*pair++ = rbp;
	__builtin_memcpy(pair, walk->frame, walk->count * sizeof *pair);
	entry->bytes = (uint32_t)((char *)(pair + walk->count) - (char *)entry);
}

NOINLINE void memo_add(struct slot *slot, const uintptr_t *frame, uint32_t record)
{
	const struct walk *walk = slot->walk;
	struct memo *memo = slot->memo;
	uint32_t bytes =
		(uint32_t)sizeof(struct memo_entry) + (walk->count + walk->checks + 4) * 16;

	if (memo == NULL)
		return;
	memo->missed++;
	/* Without a stamp the walk may not be used again; too deep or too odd ones are not worth their place. */
	if (walk->stamp == 0 || walk->count == 0 || walk->count > MEMO_FRAMES ||
	    walk->checks > MEMO_CHECKS)
		return;
	if (memo->rest > 0) {
		memo->rest--;
		return;
	}
	if (memo->used + bytes > memo->bytes)
		begin_again(slot);
	uint32_t epoch = walk->stamp >> (64 - STAMP_SHIFT);

	if (memo->generation != walk->generation || memo->epoch != epoch)
		memo_forget(slot);
	memo->generation = walk->generation;
	memo->epoch = epoch;
	memo->is_touched = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	uintptr_t at = (uintptr_t)(frame + 1);
	struct memo_row *row = row_for(memo, walk, at, frame[1]);
	struct memo_entry *entry = memo_entry(memo, memo->used);

	entry->key = row->key;
	entry->record = record;
	fill(entry, walk, frame);

	uint64_t hash = memo_hash(at, frame[1]);
	uint64_t place = memo_place(row, hash, at);

	for (uint64_t way = 0; way < MEMO_WAYS; way++) {
		const struct memo_entry *there = memo_entry(memo, memo->place[place ^ way]);

		if (there->key == entry->key)
			learn_look(row, there, entry);
	}
	place = memo_place(row, hash, at);
	for (uint64_t way = MEMO_WAYS - 1; way > 0; way--)
		memo->place[place ^ way] = memo->place[place ^ (way - 1)];
	memo->place[place] = memo->used;
	row->last = memo->used;
	memo->used += entry->bytes;
	memo->added++;
}
