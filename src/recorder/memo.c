/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the memo. Owns the slots' memos; each is its own thread's alone.
 *
 * Invariant: a place is 0 or leads to a whole entry of the ring. When the ring is full it begins again, and all places
 * are forgotten with what they led to: simpler than telling which entries are still whole, and as rare as the ring is
 * large. */
#include "recorder/memo.h"

enum { RING_FIRST = 128 * 1024, RING_OTHERS = 48 * 1024, SLOTS_WITH_MEMO = 16 };

_Static_assert(sizeof(struct memo_entry) % 16 == 0, "pairs of words are aligned");

struct memo *memo_new(uint32_t slot)
{
	uint32_t bytes = slot == 0 ? RING_FIRST : RING_OTHERS;
	struct memo *memo = slot < SLOTS_WITH_MEMO ? memory_scratch(sizeof *memo + bytes) : NULL;

	if (memo == NULL)
		return NULL;
	memo->ring = (char *)(memo + 1);
	memo->bytes = bytes;
	memo->used = 16;
	return memo;
}

void memo_forget(struct slot *slot)
{
	if (slot->memo == NULL)
		return;
	__builtin_memset(slot->memo->place, 0, sizeof slot->memo->place);
	__builtin_memset(slot->memo->caller, 0, sizeof slot->memo->caller);
	slot->memo->used = 16;
}

/* The caller's row, made from this walk if another's was there: the frames behind the first. */
static const struct memo_caller *caller_for(struct memo *memo, const struct walk *walk,
					    const struct memo_entry *entry)
{
	struct memo_caller *caller = memo_caller_of(memo, entry->at, entry->pc);

	if (caller->at == entry->at && caller->pc == entry->pc && caller->stamp == walk->stamp)
		return caller;
	caller->at = entry->at;
	caller->pc = entry->pc;
	caller->stamp = walk->stamp;
	caller->looks = MIN(walk->count - 1, (uint32_t)MEMO_LOOKS);
	for (uint32_t i = 0; i < caller->looks; i++)
		caller->look[i] = walk->frame[walk->count - 2 - i].at;
	return caller;
}

NOINLINE void memo_add(struct slot *slot, const uintptr_t *frame, uint32_t record)
{
	const struct walk *walk = slot->walk;
	struct memo *memo = slot->memo;
	uint32_t bytes = (uint32_t)sizeof(struct memo_entry) + (walk->count + walk->checks) * 16;

	/* Without a stamp the walk may not be used again; too deep or too odd ones are not worth their place. */
	if (memo == NULL || walk->stamp == 0 || walk->count == 0 || walk->count > MEMO_FRAMES ||
	    walk->checks > MEMO_CHECKS)
		return;
	if (memo->used + bytes > memo->bytes)
		memo_forget(slot);
	struct memo_entry *entry = (struct memo_entry *)(void *)(memo->ring + memo->used);
	uintptr_t *pairs = (uintptr_t *)(void *)(entry + 1);

	*entry = (struct memo_entry){
		.at = (uintptr_t)(frame + 1),
		.pc = frame[1],
		.rbp = frame[0],
		.stamp = walk->stamp,
		.generation = walk->generation,
		.record = record,
		.frames = (uint16_t)walk->count,
		.checks = (uint16_t)walk->checks,
		.needs_rbp = walk->info[walk->count - 1].needs_rbp,
	};
	/* Innermost first: what changes most is seen first. */
	for (uint32_t i = walk->count; i-- > 0; pairs += 2) {
		pairs[0] = walk->frame[i].at;
		pairs[1] = walk->frame[i].pc;
	}
	for (uint32_t i = 0; i < walk->checks; i++, pairs += 2) {
		pairs[0] = walk->check[i].at;
		pairs[1] = walk->check[i].word;
	}
	uint32_t offset = memo->used;

	memo->used += bytes;
	*memo_place(memo, caller_for(memo, walk, entry)) = offset;
}
