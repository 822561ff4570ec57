/* SPDX-License-Identifier: Apache-2.0 */
/* The incremental walk: see walk.h for why it is sound.
 *
 * Owns: the slot's struct walk. Invariant after each walk: frame[], info[] [0, count) are the stack, root first, with
 * consistent hash and WALK_NEEDS_FP; check[] is sorted by index. A walk that was cut, that ended at unreadable memory,
 * or that the slow path made leaves stamp 0: nothing of it is reused.
 *
 * Most frames are found from sp alone, without tracking fp. If a frame needs fp, the frames inside it tell where it was
 * saved last. In code with frame pointers, fp is followed from frame to frame. */
#include "recorder/unwind/walk.h"

#include "recorder/unwind/modules.h"
#include "recorder/unwind/rules.h"

/* Each frame adds at most two words to check: where fp was saved, and the word of a realigned frame. */
static uint32_t checks_limit(uint32_t limit)
{
	return 2 * limit + 1;
}

uint64_t walk_bytes(uint32_t limit)
{
	return sizeof(struct walk) + sizeof(struct walk_frame) +
	       limit * (sizeof(struct walk_frame) + sizeof(struct walk_info) +
			sizeof(struct walk_fresh)) +
	       2 * checks_limit(limit) * sizeof(struct walk_check);
}

struct walk *walk_place(void *room, uint32_t limit)
{
	struct walk *walk = room;

	walk->limit = limit;
	walk->frame = (struct walk_frame *)(void *)(walk + 1) + 1;
	walk->frame[-1].at = UINTPTR_MAX;
	walk->info = (struct walk_info *)(void *)(walk->frame + limit);
	walk->fresh = (struct walk_fresh *)(void *)(walk->info + limit);
	walk->check = (struct walk_check *)(void *)(walk->fresh + limit);
	walk->fresh_check = walk->check + checks_limit(limit);
	return walk;
}

static ALWAYS_INLINE uintptr_t word_at(uintptr_t address)
{
	return *(const volatile uintptr_t *)address;
}

/* The innermost frame below `from` (towards the root) that the stored words no longer lead to; -1 = none. All words lie
 * in the range of this walk, so they are readable. */
static ALWAYS_INLINE int newest_change(const struct walk *walk, int from)
{
	const struct walk_frame *frame = walk->frame;
	int k = from - 1;

	for (; k >= 3; k -= 4) {
		uintptr_t changed = word_at(frame[k].at) ^ frame[k].pc;

		changed |= word_at(frame[k - 1].at) ^ frame[k - 1].pc;
		changed |= word_at(frame[k - 2].at) ^ frame[k - 2].pc;
		changed |= word_at(frame[k - 3].at) ^ frame[k - 3].pc;
		if (changed != 0)
			break;
	}
	while (k >= 0 && word_at(frame[k].at) == frame[k].pc)
		k--;
	for (uint32_t i = walk->checks; i-- > 0;) {
		const struct walk_check *check = &walk->check[i];

		if (check->index >= from)
			continue;
		if (check->index < k)
			break;
		if (word_at(check->at) != check->word)
			return MAX(check->index, 0);
	}
	return k;
}

/* What the walk in progress knows about fp: its value in fresh frame `known`. */
struct walker {
	struct walk *walk;
	struct stack_range *range;
	uintptr_t fp;
	/* Where fp was read, and for which fresh frame; 0 = from the register, or already a word to check. */
	uintptr_t fp_at;
	uint32_t fp_of;
	uint32_t known;
	uint32_t checks;
};

static void add_check(struct walker *walker, uintptr_t at, uintptr_t word, uint32_t leads_to)
{
	walker->walk->fresh_check[walker->checks++] =
		(struct walk_check){ at, word, (int32_t)leads_to };
}

/* Call when a frame depends on fp: the word it was read from becomes part of the walk. */
static ALWAYS_INLINE void use_fp(struct walker *walker)
{
	if (walker->fp_at != 0)
		add_check(walker, walker->fp_at, walker->fp, walker->fp_of);
	walker->fp_at = 0;
}

/* Reads the fp that fresh[i] saved: its caller's, fresh[i + 1]'s. cfa: of fresh[i]. */
static ALWAYS_INLINE bool read_fp(struct walker *walker, uint32_t i, uintptr_t cfa)
{
	const struct walk_fresh *frame = &walker->walk->fresh[i];
	uintptr_t saved = rule_kind(frame->rule) == RULE_DEREF
				  ? frame->fp
				  : cfa + (uintptr_t)rule_fp(frame->rule);

	if (!stack_range_holds(walker->range, saved))
		return false;
	walker->fp = word_at(saved);
	walker->fp_at = saved;
	walker->fp_of = walker->known = i + 1;
	return true;
}

/* Finds fp in the frame `at`, which is or would be fresh[c]: the value stored
 * by the outermost frame inside it that saved fp. */
static NOINLINE bool find_fp(struct walker *walker, uint32_t c, uintptr_t at)
{
	const struct walk_fresh *fresh = walker->walk->fresh;

	for (uint32_t i = c; i-- > walker->known;) {
		if (rule_fp(fresh[i].rule) == 0)
			continue;
		if (!read_fp(walker, i,
			     (i + 1 < c ? fresh[i + 1].at : at) -
				     (uintptr_t)rule_return(fresh[i].rule)))
			return false;
		break;
	}
	walker->known = c;
	return true;
}

static ALWAYS_INLINE bool know_fp(struct walker *walker, uint32_t c, uintptr_t at)
{
	return walker->known == c || find_fp(walker, c, at);
}

/* Result of a step from a frame to its caller. */
enum step { STEPPED, ENDED, STOPPED, UNREADABLE, NEEDS_SLOW };

/* Steps from fresh[c], whose rule does not use sp, to the address of its caller's return address. */
static NOINLINE enum step step_by_fp(struct walker *walker, uint32_t c, uintptr_t *ret_at)
{
	struct walk_fresh *now = &walker->walk->fresh[c];
	enum rule_kind kind = rule_kind(now->rule);

	if (kind != RULE_FP && kind != RULE_DEREF)
		return kind == RULE_END ? ENDED : kind == RULE_SLOW ? NEEDS_SLOW : STOPPED;
	if (!know_fp(walker, c, now->at))
		return UNREADABLE;
	use_fp(walker);
	now->fp = walker->fp;
	uintptr_t cfa = now->fp + (uintptr_t)rule_cfa(now->rule);

	if (kind == RULE_DEREF) {
		uintptr_t from = cfa;

		if (from % sizeof(uintptr_t) != 0 || !stack_range_holds(walker->range, from) ||
		    !stack_range_holds(walker->range, now->fp))
			return UNREADABLE;
		cfa = word_at(from);
		add_check(walker, from, cfa, c + 1);
	}
	/* Callers lie above; anything else is another stack, which only the slow walk can cross. */
	if (cfa % sizeof(uintptr_t) != 0 || cfa <= WALK_SP(now, now->at) ||
	    cfa < walker->range->low)
		return NEEDS_SLOW;
	*ret_at = cfa + (uintptr_t)rule_return(now->rule);
	if (ARCH_RETURN_VARIES && *ret_at < WALK_SP(now, now->at))
		return NEEDS_SLOW;
	/* If a function has a frame pointer, its caller usually has one too. */
	if (rule_fp(now->rule) != 0 && !read_fp(walker, c, cfa))
		return UNREADABLE;
	return STEPPED;
}

/* Stores c fresh frames on top of the `base` outermost stored ones. */
static ALWAYS_INLINE uint64_t store_frames(struct walk *walk, uint32_t base, uint32_t c,
					   uint32_t checks)
{
	uint64_t hash = walk->mark, needs = 0;
	uintptr_t fp = 0;

	if (base > 0) {
		hash = walk->info[base - 1].hash;
		needs = walk->info[base - 1].rule & WALK_NEEDS_FP;
		fp = walk->info[base - 1].fp;
	}
	walk->count = base + c;
	while (checks-- > 0) {
		struct walk_check check = walk->fresh_check[checks];

		check.index = (int32_t)(walk->count - 1) - check.index;
		walk->check[walk->checks++] = check;
	}
	struct walk_frame *frame = walk->frame + base;
	struct walk_info *info = walk->info + base;

	for (const struct walk_fresh *fresh = walk->fresh + c; fresh-- != walk->fresh;) {
		uint64_t rule = fresh->rule;

		if (UNLIKELY(rule_kind(rule) == RULE_FP || rule_kind(rule) == RULE_DEREF)) {
			needs = WALK_NEEDS_FP;
			fp = fresh->fp;
		} else if (UNLIKELY(needs != 0) && rule_fp(rule) != 0) {
			needs = 0;
		}
		hash = walk_hash(hash, rule_frame(rule));
		*frame++ = (struct walk_frame){ fresh->at, fresh->pc };
		*info = (struct walk_info){ rule | needs, hash, 0, 0, fp };
		WALK_SET_SP(info, WALK_SP(fresh, 0));
		info++;
	}
	return hash;
}

/* Ends a walk that joined no stored frame: complete, or with a sentinel at its root. */
static NOINLINE uint64_t finish(struct walker *walker, enum step how, uint32_t c)
{
	struct walk *walk = walker->walk;

	/* ld.so starts the process in assembly without unwind information: that is a root, not a gap. */
	walk->mark = how == ENDED || modules_is_loader(arch_strip(walk->fresh[c - 1].pc))
			     ? 0
			     : LIVE_FRAME_STOPPED;
	walk->checks = 0;
	walk->unreadable = how == UNREADABLE;
	if (walk->unreadable)
		walk->stamp = 0;
	return store_frames(walk, 0, c, walker->checks);
}

COLD uint64_t walk_take(struct walk *walk, uint32_t c, uint32_t mark)
{
	walk->mark = mark;
	walk->unreadable = false;
	walk->checks = 0;
	walk->stamp = 0;
	return store_frames(walk, 0, c, 0);
}

/* Joins the stored frames [0, j] as the rest of this walk. */
static ALWAYS_INLINE uint64_t join(struct walker *walker, int j, uint32_t c)
{
	struct walk *walk = walker->walk;

	if (UNLIKELY(walk->info[j].rule & WALK_NEEDS_FP))
		use_fp(walker);
	while (walk->checks > 0 && walk->check[walk->checks - 1].index >= j)
		walk->checks--;
	return store_frames(walk, (uint32_t)j + 1, c, walker->checks);
}

/* True if fp in the frame `at`, reached after c fresh ones, equals that of the stored frame j, or does not matter. */
static ALWAYS_INLINE bool same_fp(struct walker *walker, int j, uint32_t c, uintptr_t at)
{
	const struct walk_info *info = &walker->walk->info[j];

	return LIKELY(!(info->rule & WALK_NEEDS_FP)) ||
	       (know_fp(walker, c, at) && walker->fp == info->fp);
}

/* True if `old` was stored for the frame at this address, and a walk from it on would read the same words. */
static ALWAYS_INLINE bool is_stored(struct walker *walker, const struct walk_frame *old, uint32_t c,
				    uintptr_t at, uintptr_t pc, uintptr_t sp)
{
	int j = (int)(old - walker->walk->frame);

	return old->at == at && old->pc == pc &&
	       (!ARCH_RETURN_VARIES || WALK_SP(&walker->walk->info[j], 0) == sp) &&
	       same_fp(walker, j, c, at);
}

static ALWAYS_INLINE uint64_t walk_once(struct slot *slot, const uintptr_t *frame)
{
	struct walk *walk = slot->walk;
	uintptr_t at = (uintptr_t)(frame + 1), pc = frame[1], sp = arch_cfa_of(frame);
	struct walker walker = { walk, stack_range_of(slot, at), .fp = frame[0] };
	uint32_t generation = __atomic_load_n(&modules_generation, __ATOMIC_RELAXED);
	/* The stored frame that may match next, and the fresh one being filled in. */
	const struct walk_frame *root = walk->frame, *old = root + walk->count - 1;
	struct walk_fresh *fresh = walk->fresh;
	uint32_t c = 0;

	if (UNLIKELY(walk->stamp != walker.range->stamp || walk->generation != generation))
		old = root - 1;
	walk->stamp = walker.range->stamp;
	walk->generation = generation;
	for (;;) {
		while (old->at < at)
			old--;
		if (is_stored(&walker, old, c, at, pc, sp)) {
			int j = (int)(old - root), changed = newest_change(walk, j);

			if (LIKELY(changed < 0 && (uint32_t)j + 1 + c <= walk->limit))
				return join(&walker, j, c);
			old = root + MIN(changed, j - 1); /* too deep to join: go on to the limit */
		}
		if (UNLIKELY(c == walk->limit))
			return walk_take(walk, c, LIVE_FRAME_CUT); /* keeps the innermost frames */
		uint64_t rule = rules_get(slot, arch_strip(pc));

		fresh->at = at;
		fresh->pc = pc;
		fresh->rule = rule;
		WALK_SET_SP(fresh, sp);
		if (LIKELY(rule_kind(rule) == RULE_SP)) {
			at = WALK_SP(fresh, at) + (uintptr_t)(rule_cfa(rule) + rule_return(rule));
		} else {
			enum step how = step_by_fp(&walker, c, &at);

			if (UNLIKELY(how == NEEDS_SLOW))
				return walk_slowly(slot, frame);
			if (UNLIKELY(how != STEPPED))
				return finish(&walker, how, c + 1);
		}
		c++;
		fresh++;
		sp = at - (uintptr_t)rule_return(rule);
		if (UNLIKELY(!stack_range_holds(walker.range, at)))
			return finish(&walker, UNREADABLE, c);
		pc = word_at(at);
		if (UNLIKELY(arch_strip(pc) == 0)) {
			add_check(&walker, at, pc, c);
			return finish(&walker, ENDED, c);
		}
	}
}

/* True if an object may have been replaced without notice, so that its rules are stale. */
static ALWAYS_INLINE bool may_be_stale(void)
{
	return UNLIKELY(__atomic_load_n(&modules_unwatched, __ATOMIC_RELAXED) != 0 ||
			(rules_have_orphans() && !modules_notice_loads()));
}

static uint64_t frame_at(const struct walk *walk, uint32_t k)
{
	return *memory_frame(rule_frame(walk->info[k].rule));
}

COLD bool walk_is_lasting(const struct walk *walk)
{
	for (uint32_t k = 0; may_be_stale() && k < walk->count; k++) {
		if (rule_frame(walk->info[k].rule) > LIVE_FRAME_STACK_OFF &&
		    !modules_is_watched(live_frame_module(frame_at(walk, k))))
			return false;
	}
	return true;
}

/* True if each frame's rule was made for the object that is there now. The innermost address is right, and each right rule leads to
 * the next right address. So the first wrong rule is found before a wrong address is looked up. */
static bool is_right(struct slot *slot)
{
	const struct walk *walk = slot->walk;
	uint32_t last = 0;

	for (uint32_t k = walk->count; k-- > 0;) {
		uint64_t frame = frame_at(walk, k);
		uint32_t module = live_frame_module(frame);
		uintptr_t pc = arch_strip(walk->frame[k].pc) - !live_frame_exact(frame);

		if (rule_frame(walk->info[k].rule) <= LIVE_FRAME_STACK_OFF ||
		    (module != 0 && module == last))
			continue;
		if (!modules_verify(slot, pc, module))
			return false;
		last = module;
	}
	return true;
}

uint64_t walk_stack(struct slot *slot, const uintptr_t *frame)
{
	enum { TRIES = 4 };

	for (int i = 0; i < TRIES; i++) {
		uint64_t hash = walk_once(slot, frame);

		if (!may_be_stale() || is_right(slot))
			return hash;
	}
	return walk_take(slot->walk, 0, LIVE_FRAME_STOPPED);
}
