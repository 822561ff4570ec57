/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the memo. Owns the slots' memos; each is its own thread's alone.
 *
 * Invariant: a place leads to a whole entry of the ring, the first of which is nobody's. */
#include "recorder/memo.h"

enum {
	RING_FIRST = 128 * 1024,
	RING_OTHERS = 48 * 1024,
	SLOTS_WITH_MEMO = 16,
	WORTH = 8, /* a ring of walks of which less than one in so many came again is not worth filling */
	REST = 16, /* then this many times as many pass before the next attempt */
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
	__builtin_memset(memo->place, 0, sizeof memo->place);
	__builtin_memset(memo->row, 0, sizeof memo->row);
	memo->used = sizeof(struct memo_entry);
	memo->added = 0;
	memo->calls = slot->live->calls;
}

/* The ring is full. Calls that added nothing were found in it. */
static void begin_again(struct slot *slot)
{
	struct memo *memo = slot->memo;
	uint64_t calls = slot->live->calls - memo->calls;

	memo->rest = calls < memo->added + memo->added / WORTH ? memo->added * REST : 0;
	memo_forget(slot);
}

/* The caller's row, in the place of another's if need be. */
static struct memo_row *row_for(struct memo *memo, const struct walk *walk, uintptr_t at,
				uintptr_t pc)
{
	struct memo_row *row = memo_row(memo, at, pc);

	if (row != NULL && row->stamp == walk->stamp)
		return row;
	if (row == NULL) {
		uint64_t n = memo_hash(at, pc) >> 32 & (MEMO_ROWS - 1);

		row = &memo->row[memo->row[n].at != 0 ? n ^ 1 : n];
	}
	*row = (struct memo_row){ .at = at, .pc = pc, .stamp = walk->stamp };
	return row;
}

/* Two stacks of one row came to one place: the first word in which they differ tells them apart from now on. */
static void learn_look(struct memo_row *row, const struct memo_entry *a, const struct memo_entry *b)
{
	const uintptr_t *x = (const uintptr_t *)(const void *)(a + 1);
	const uintptr_t *y = (const uintptr_t *)(const void *)(b + 1);
	uint32_t words = (MIN(a->bytes, b->bytes) - (uint32_t)sizeof *a) / 16, i = 0;

	while (i < words && x[2 * i] == y[2 * i] && x[2 * i + 1] == y[2 * i + 1])
		i++;
	if (i == words || x[2 * i] != y[2 * i] || row->looks == MEMO_LOOKS)
		return;
	uint32_t look = (uint32_t)(x[2 * i] - row->at);

	for (uint32_t k = 0; k < row->looks; k++) {
		if (row->look[k] == look)
			return; /* they do differ there: one place for two hashes */
	}
	row->look[row->looks++] = look;
}

static void fill(struct memo_entry *entry, const struct walk *walk, const uintptr_t *frame)
{
	uintptr_t *first = (uintptr_t *)(void *)(entry + 1), *pairs = first;

	/* Innermost first: what changes most is seen first. */
	for (uint32_t i = walk->count; i-- > 0; pairs += 2) {
		pairs[0] = walk->frame[i].at;
		pairs[1] = walk->frame[i].pc;
	}
	for (uint32_t i = 0; i < walk->checks; i++, pairs += 2) {
		pairs[0] = walk->check[i].at;
		pairs[1] = walk->check[i].word;
	}
	if (walk->info[walk->count - 1].needs_rbp) { /* the caller's, which the hook has saved */
		pairs[0] = (uintptr_t)frame;
		pairs[1] = frame[0];
		pairs += 2;
	}
	for (; (pairs - first) % 8 != 0; pairs += 2) {
		pairs[0] = pairs[-2];
		pairs[1] = pairs[-1];
	}
	entry->bytes = (uint32_t)((char *)pairs - (char *)entry);
}

NOINLINE void memo_add(struct slot *slot, const uintptr_t *frame, uint32_t record)
{
	const struct walk *walk = slot->walk;
	struct memo *memo = slot->memo;
	uint32_t bytes =
		(uint32_t)sizeof(struct memo_entry) + (walk->count + walk->checks + 4) * 16;

	/* Without a stamp the walk may not be used again; too deep or too odd ones are not worth their place. */
	if (memo == NULL || walk->stamp == 0 || walk->count == 0 || walk->count > MEMO_FRAMES ||
	    walk->checks > MEMO_CHECKS)
		return;
	if (memo->rest > 0) {
		memo->rest--;
		return;
	}
	if (memo->used + bytes > memo->bytes)
		begin_again(slot);
	if (memo->generation != walk->generation)
		memo_forget(slot);
	memo->generation = walk->generation;
	struct memo_entry *entry = (struct memo_entry *)(void *)(memo->ring + memo->used);

	entry->at = (uintptr_t)(frame + 1);
	entry->record = record;
	fill(entry, walk, frame);

	struct memo_row *row = row_for(memo, walk, entry->at, frame[1]);
	uint64_t place = memo_place(row);

	for (uint64_t i = 0; i < 2; i++) {
		if (memo_entry(memo, place ^ i)->at == entry->at)
			learn_look(row, memo_entry(memo, place ^ i), entry);
	}
	place = memo_place(row);
	memo->place[place ^ 1] = memo->place[place];
	memo->place[place] = memo->used;
	memo->used += entry->bytes;
	memo->added++;
}
