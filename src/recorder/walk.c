/* SPDX-License-Identifier: Apache-2.0 */
/* The incremental walk: see walk.h for why it is right.
 *
 * Owns: the slot's struct walk. Invariant after each walk: frame[], info[] [0, count) are the stack, root first, hash
 * and needs_rbp consistent; check[] is sorted by index. A walk that was cut, that ended where memory could not be
 * read, or that the slow path made leaves stamp 0: nothing of it is used again. */
#include "recorder/walk.h"

#include "recorder/modules.h"
#include "recorder/rules.h"

uint64_t walk_bytes(uint32_t limit)
{
	return sizeof(struct walk) +
	       limit * (sizeof(struct walk_frame) + sizeof(struct walk_info) +
			2 * sizeof(struct walk_check) + sizeof(struct walk_fresh));
}

struct walk *walk_place(void *room, uint32_t limit)
{
	struct walk *walk = room;
	char *at = (char *)room + sizeof *walk;

	walk->limit = limit;
	walk->frame = (void *)at;
	at += limit * sizeof *walk->frame;
	walk->info = (void *)at;
	at += limit * sizeof *walk->info;
	walk->check = (void *)at;
	at += 2 * limit * sizeof *walk->check;
	walk->fresh = (void *)at;
	return walk;
}

static ALWAYS_INLINE uintptr_t word_at(uintptr_t address)
{
	return *(const volatile uintptr_t *)address;
}

/* The newest frame below `from` (towards the root) whose words are no longer what the last walk read; -1 = none.
 * All of them lie in the range that this walk is in, so they can be read. */
static ALWAYS_INLINE int newest_change(const struct walk *walk, int from)
{
	int k = from - 1;

	while (k >= 0 && word_at(walk->frame[k].at) == walk->frame[k].pc)
		k--;
	for (int i = (int)walk->checks - 1; i >= 0; i--) {
		const struct walk_check *check = &walk->check[i];

		if ((int)check->index >= from)
			continue;
		if ((int)check->index <= k)
			break;
		if (word_at(check->at) != check->word)
			return (int)check->index;
	}
	return k;
}

static ALWAYS_INLINE bool uses_rbp(uint64_t rule)
{
	return rule_kind(rule) == RULE_RBP || rule_kind(rule) == RULE_DEREF;
}

/* Takes c fresh frames over, on top of the `base` oldest stored ones. */
static ALWAYS_INLINE uint64_t keep(struct walk *walk, uint32_t base, uint32_t c)
{
	uint64_t hash = base > 0 ? walk->info[base - 1].hash : walk->mark;
	bool needs = base > 0 && walk->info[base - 1].needs_rbp;

	for (uint32_t x = base; c-- > 0; x++) {
		const struct walk_fresh *fresh = &walk->fresh[c];

		needs = uses_rbp(fresh->rule) || (needs && rule_rbp(fresh->rule) == 0);
		hash = walk_hash(hash, rule_frame(fresh->rule));
		walk->frame[x] = (struct walk_frame){ fresh->at, fresh->pc };
		walk->info[x] = (struct walk_info){ fresh->rule, hash, fresh->rbp, 0, 0, needs };
		if (needs && fresh->rbp_at != 0)
			walk->check[walk->checks++] =
				(struct walk_check){ fresh->rbp_at, fresh->rbp, x };
		if (UNLIKELY(fresh->deref_at != 0))
			walk->check[walk->checks++] =
				(struct walk_check){ fresh->deref_at, fresh->at + sizeof(uintptr_t),
						     x };
		walk->count = x + 1;
	}
	return hash;
}

/* What a step from one frame to its caller did. */
enum step { STEPPED, ENDED, STOPPED, UNREADABLE, NEEDS_SLOW };

/* Moves `now` (at, rbp, and where they came from) to the caller. */
static ALWAYS_INLINE enum step step(struct walk_fresh *now, uint64_t rule,
				    struct stack_range *range)
{
	enum rule_kind kind = rule_kind(rule);
	uintptr_t cfa, saved;

	now->rbp_at = 0;
	now->deref_at = 0;
	if (LIKELY(kind == RULE_RSP)) {
		cfa = now->at + sizeof(uintptr_t) + (uintptr_t)rule_cfa(rule);
	} else if (LIKELY(kind == RULE_RBP)) {
		cfa = now->rbp + (uintptr_t)rule_cfa(rule);
	} else if (kind == RULE_DEREF) {
		now->deref_at = now->rbp + (uintptr_t)rule_cfa(rule);
		if (now->deref_at % sizeof(uintptr_t) != 0 ||
		    !stack_range_holds(range, now->deref_at) || !stack_range_holds(range, now->rbp))
			return UNREADABLE;
		cfa = word_at(now->deref_at);
	} else {
		return kind == RULE_END ? ENDED : kind == RULE_SLOW ? NEEDS_SLOW : STOPPED;
	}
	/* Callers lie above; anything else is another stack, which the slow walk can cross. */
	if (UNLIKELY(cfa % sizeof(uintptr_t) != 0 || cfa <= now->at + sizeof(uintptr_t) ||
		     cfa < range->low))
		return NEEDS_SLOW;
	if (UNLIKELY(!stack_range_holds(range, cfa - sizeof(uintptr_t))))
		return UNREADABLE;
	if (rule_rbp(rule) != 0) {
		saved = kind == RULE_DEREF ? now->rbp : cfa + (uintptr_t)rule_rbp(rule);
		if (UNLIKELY(!stack_range_holds(range, saved)))
			return UNREADABLE;
		now->rbp_at = saved;
		now->rbp = word_at(saved);
	}
	now->at = cfa - sizeof(uintptr_t);
	now->pc = word_at(now->at);
	return now->pc == 0 ? ENDED : STEPPED;
}

/* How a walk that came to no stored frame ends: complete, or with a mark at its root. */
static uint64_t finish(struct walk *walk, enum step how, uint32_t c)
{
	/* ld.so begins the process in assembly without unwind information: that is a root, not a gap. */
	walk->mark =
		how == ENDED || modules_is_loader(walk->fresh[c - 1].pc) ? 0 : LIVE_FRAME_STOPPED;
	walk->count = 0;
	walk->checks = 0;
	walk->unreadable = how == UNREADABLE;
	if (walk->unreadable)
		walk->stamp = 0;
	return keep(walk, 0, c);
}

COLD uint64_t walk_take(struct walk *walk, uint32_t c, uint32_t mark)
{
	walk->mark = mark;
	walk->unreadable = false;
	walk->count = 0;
	walk->checks = 0;
	walk->stamp = 0;
	return keep(walk, 0, c);
}

/* The stored frames [0, j] are the rest of this walk; its last step led to j by the words in `now`. */
static ALWAYS_INLINE uint64_t join(struct walk *walk, int j, const struct walk_fresh *now,
				   uint32_t c)
{
	struct walk_info *info = &walk->info[j];

	info->rbp = now->rbp;
	if (c == 0) { /* the very stack of the last walk, or a caller's */
		walk->count = (uint32_t)j + 1;
		while (walk->checks > 0 && (int)walk->check[walk->checks - 1].index >= j)
			walk->checks--;
		return info->hash;
	}
	while (walk->checks > 0 && (int)walk->check[walk->checks - 1].index >= j)
		walk->checks--;
	if (info->needs_rbp && now->rbp_at != 0)
		walk->check[walk->checks++] =
			(struct walk_check){ now->rbp_at, now->rbp, (uint32_t)j };
	if (UNLIKELY(now->deref_at != 0))
		walk->check[walk->checks++] =
			(struct walk_check){ now->deref_at, now->at + sizeof(uintptr_t),
					     (uint32_t)j };
	return keep(walk, (uint32_t)j + 1, c);
}

uint64_t walk_stack(struct slot *slot, const uintptr_t *frame)
{
	struct walk *walk = slot->walk;
	struct walk_fresh now = { .at = (uintptr_t)(frame + 1), .pc = frame[1], .rbp = frame[0] };
	struct stack_range *range = stack_range_of(slot, now.at);
	uint32_t generation = __atomic_load_n(&modules_generation, __ATOMIC_RELAXED);
	int j = (int)walk->count - 1;
	uint32_t c = 0;

	if (UNLIKELY(walk->stamp != range->stamp || walk->generation != generation))
		j = -1;
	walk->stamp = range->stamp;
	walk->generation = generation;
	for (;;) {
		while (j >= 0 && walk->frame[j].at < now.at)
			j--;
		if (j >= 0 && walk->frame[j].at == now.at && walk->frame[j].pc == now.pc &&
		    (!walk->info[j].needs_rbp || walk->info[j].rbp == now.rbp)) {
			int changed = newest_change(walk, j);

			if (LIKELY(changed < 0)) {
				if (LIKELY((uint32_t)j + 1 + c <= walk->limit))
					return join(walk, j, &now, c);
				changed = -1; /* too deep to join: go on to the limit */
			}
			j = changed;
		}
		if (UNLIKELY(c == walk->limit))
			return walk_take(walk, c, LIVE_FRAME_CUT); /* the innermost frames */
		now.rule = rules_get(slot, now.pc);
		walk->fresh[c++] = now;
		enum step how = step(&now, now.rule, range);

		if (LIKELY(how == STEPPED))
			continue;
		if (how == NEEDS_SLOW)
			return walk_slowly(slot, frame);
		return finish(walk, how, c);
	}
}
