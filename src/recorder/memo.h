/* SPDX-License-Identifier: Apache-2.0 */
/* A memo of whole walks, beside the incremental one: a program that allocates from the same few stacks in turn finds the
 * record of each without walking. An entry holds every word that its walk read; it counts only if all of them are
 * unchanged, which is the same argument as in walk.h, for a match at the first frame.
 *
 * Found by the caller of the hook and by what lies at a few places above it: the return addresses of the frames nearest
 * to the first walk that came from that caller. Other stacks of the same caller mostly have theirs at the same places,
 * and where they do not, an entry is missed, never mistaken.
 *
 * Entries lie one behind the other in a ring of their slot's; the oldest are overwritten. */
#ifndef RECORDER_MEMO_H
#define RECORDER_MEMO_H

#include "recorder/modules.h"
#include "recorder/walk.h"

enum { MEMO_PLACES = 512, MEMO_CALLERS = 256, MEMO_LOOKS = 6, MEMO_CHECKS = 16, MEMO_FRAMES = 128 };

struct memo_entry {
	uintptr_t at, pc, rbp; /* of the hook's caller */
	uint32_t stamp, generation;
	uint32_t record;
	uint16_t frames,
		checks; /* behind this: frames, then checks without their index, both as pairs of words */
	bool needs_rbp;
};

/* Where to look for what tells the stacks of one caller apart. */
struct memo_caller {
	uintptr_t at, pc;
	uint32_t stamp; /* of the range that the places lie in */
	uint32_t looks;
	uintptr_t look[MEMO_LOOKS];
};

struct memo {
	struct memo_caller caller[MEMO_CALLERS];
	uint32_t place[MEMO_PLACES]; /* offset of an entry in the ring; 0 = none */
	uint32_t used, bytes; /* of the ring; entries begin at multiples of 16, the first at 16 */
	char *ring;
};

/* A memo for a slot; NULL: no memory, or so many slots that they go without. */
struct memo *memo_new(uint32_t slot);

/* Forgets everything: a hook may have been left in the middle of memo_add. */
void memo_forget(struct slot *slot);

/* Remembers the walk that slot->walk holds. */
void memo_add(struct slot *slot, const uintptr_t *frame, uint32_t record);

static ALWAYS_INLINE struct memo_caller *memo_caller_of(struct memo *memo, uintptr_t at,
							uintptr_t pc)
{
	return &memo->caller[(at + pc * 3) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

/* Which place of the memo the stack that is there now belongs to. */
static ALWAYS_INLINE uint32_t *memo_place(struct memo *memo, const struct memo_caller *caller)
{
	uint64_t hash = caller->at + caller->pc;

	for (uint32_t i = 0; i < caller->looks; i++)
		hash = (hash ^ *(const volatile uintptr_t *)caller->look[i]) *
		       UINT64_C(0x9e3779b97f4a7c15);
	return &memo->place[hash >> 55];
}

/* Whether `count` words still are at the addresses where the walk read them. All lie in the range of the stamp. */
static ALWAYS_INLINE bool memo_holds(const uintptr_t *pairs, uint32_t count)
{
	uintptr_t changed = 0;
	uint32_t i = 0;

	for (; i + 4 <= count; i += 4, pairs += 8) {
		changed |= *(const volatile uintptr_t *)pairs[0] ^ pairs[1];
		changed |= *(const volatile uintptr_t *)pairs[2] ^ pairs[3];
		changed |= *(const volatile uintptr_t *)pairs[4] ^ pairs[5];
		changed |= *(const volatile uintptr_t *)pairs[6] ^ pairs[7];
		if (UNLIKELY(changed != 0))
			return false;
	}
	for (; i < count; i++, pairs += 2)
		changed |= *(const volatile uintptr_t *)pairs[0] ^ pairs[1];
	return changed == 0;
}

/* The record of the stack above the hook's caller; 0 = not known. */
static ALWAYS_INLINE uint32_t memo_find(struct slot *slot, const uintptr_t *frame)
{
	struct memo *memo = slot->memo;
	uintptr_t at = (uintptr_t)(frame + 1), pc = frame[1];

	if (UNLIKELY(memo == NULL))
		return 0;
	const struct memo_caller *caller = memo_caller_of(memo, at, pc);

	if (UNLIKELY(caller->at != at || caller->pc != pc ||
		     caller->stamp != stack_range_of(slot, at)->stamp))
		return 0;
	uint32_t offset = *memo_place(memo, caller);

	if (offset == 0)
		return 0;
	const struct memo_entry *entry =
		(const struct memo_entry *)(const void *)(memo->ring + offset);
	const uintptr_t *pairs = (const uintptr_t *)(const void *)(entry + 1);

	if (entry->at != at || entry->pc != pc || (entry->needs_rbp && entry->rbp != frame[0]) ||
	    entry->generation != __atomic_load_n(&modules_generation, __ATOMIC_RELAXED) ||
	    entry->stamp != caller->stamp)
		return 0;
	if (!memo_holds(pairs, (uint32_t)entry->frames + entry->checks))
		return 0;
	return entry->record;
}
#endif
