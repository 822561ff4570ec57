/* SPDX-License-Identifier: Apache-2.0 */
/* See stack.h. Owns: the slots' areas for Python frames. Inside a hook. */
#include "recorder/python/stack.h"

#include "base/hash.h"
#include "recorder/counters/sites.h"
#include "recorder/python/codes.h"
#include "recorder/python/interpreter.h"
#include "recorder/unwind/rules.h"
#include "recorder/unwind/walk.h"

enum { RECENT = 512 };

/* The hash of a Python stack is its identity. Code objects lie close together and have consecutive versions, which must not make up for each
 * other: of two functions at the same instruction's address, one after the other, the halves differ; else the factor tells them apart. */
static ALWAYS_INLINE uint64_t hash_frame(uint64_t hash, uintptr_t code, uintptr_t instruction,
					 uint64_t version)
{
	return (hash + code + (version << 32 | version >> 32) +
		instruction * UINT64_C(0xc2b2ae3d27d4eb4f)) *
	       UINT64_C(0x9e3779b97f4a7c15);
}

struct python_frame {
	uintptr_t code, instruction;
	uint64_t version; /* of the code */
	uintptr_t loop;	  /* record of the interpreter loop, in its outermost function; else 0 */
	uint32_t id;	  /* frame id; 0: not looked up yet */
};

/* Both stacks of an allocation while they are merged, and the previous ones, since the next new stack usually shares its outer
 * part. Sized by the depth limit. */
struct python_area {
	uint32_t limit, count, last_count;
	struct python_frame *frame, *last; /* innermost first */
	uint32_t *id; /* of the merged stack, root first; filled from its end */
	struct site_chain chain;
	struct slot_recent recent[RECENT];
};

static struct python_area *area_of(struct slot *slot)
{
	uint32_t limit = slot->walk->limit;
	struct python_area *area = slot->python;

	if (area != NULL)
		return area;
	area = memory_scratch(sizeof *area + 2ull * limit * sizeof *area->frame +
			      4ull * limit * sizeof *area->id);
	if (area == NULL)
		return NULL;
	area->limit = limit;
	area->frame = (struct python_frame *)(void *)(area + 1);
	area->last = area->frame + limit;
	area->id = (uint32_t *)(void *)(area->last + limit);
	area->chain.frame = area->id + 2ull * limit;
	area->chain.node = area->chain.frame + limit;
	slot->python = area;
	return area;
}

/* The fields of a frame that a walk needs. */
struct seen {
	uintptr_t code, previous, instruction;
	uint8_t owner, is_entry;
};

static ALWAYS_INLINE bool see(const struct python_layout *l, enum python_reading how, uintptr_t at,
			      struct seen *ret)
{
	char copy[PYTHON_FRAME_BYTES];
	const char *from = copy;

	if (how == PYTHON_PLAINLY)
		from = (const char *)at;
	else if (!python_read(how, at, copy, sizeof copy))
		return false;
	ret->code = *(const volatile uintptr_t *)(const void *)(from + l->frame_code) &
		    ~(uintptr_t)PYTHON_TAGS;
	ret->previous = *(const volatile uintptr_t *)(const void *)(from + l->frame_previous);
	ret->instruction = *(const volatile uintptr_t *)(const void *)(from + l->frame_instruction);
	ret->owner = *(const volatile uint8_t *)(from + l->frame_owner);
	ret->is_entry = l->frame_is_entry != 0 && from[l->frame_is_entry];
	return true;
}

/* True if it marks an interpreter loop instead of a function. */
static ALWAYS_INLINE bool is_entry_frame(const struct python_layout *l, const struct seen *seen)
{
	return l->entry_owner <= l->last_owner && seen->owner >= l->entry_owner;
}

/* Returns the innermost frame, and the record of the interpreter loop that runs it (0: the frames contain it). */
static ALWAYS_INLINE bool innermost(const struct python_layout *l, enum python_reading how,
				    uintptr_t state, uintptr_t *ret_frame, uintptr_t *ret_loop)
{
	*ret_loop = 0;
	if (l->thread_loop == 0)
		return python_read(how, state + l->thread_frame, ret_frame, sizeof *ret_frame);
	return python_read(how, state + l->thread_loop, ret_loop, sizeof *ret_loop) &&
	       *ret_loop != 0 &&
	       python_read(how, *ret_loop + l->loop_frame, ret_frame, sizeof *ret_frame);
}

static COLD uint64_t unread(void)
{
	health_add(HEALTH_python_unread);
	return 0;
}

/* Hashes all frames; 0: none, or unreadable, which is counted. */
static ALWAYS_INLINE uint64_t hash_frames(const struct python_layout *l, enum python_reading how,
					  uintptr_t state, uint32_t limit)
{
	uintptr_t at, loop;
	uint64_t hash = 0, version;
	struct seen seen;

	if (!innermost(l, how, state, &at, &loop))
		return unread();
	for (; at != 0 && limit > 0; limit--, at = seen.previous) {
		if (!see(l, how, at, &seen))
			return unread();
		if (is_entry_frame(l, &seen))
			continue;
		if (!python_version(l, how, seen.code, &version))
			return unread();
		hash = hash_frame(hash, seen.code, seen.instruction, version);
	}
	return hash;
}

/* A copy for each version, with its offsets as constants. */
#define HASH_PLAINLY(number)                                                                       \
	static uint64_t hash_plainly_##number(uintptr_t state, uint32_t limit)                     \
	{                                                                                          \
		return hash_frames(&python_layouts[number], PYTHON_PLAINLY, state, limit);         \
	}
HASH_PLAINLY(0)
HASH_PLAINLY(1)
HASH_PLAINLY(2)
HASH_PLAINLY(3)
HASH_PLAINLY(4)
static uint64_t (*const hash_plainly[PYTHON_VERSIONS])(uintptr_t, uint32_t) = {
	hash_plainly_0, hash_plainly_1, hash_plainly_2, hash_plainly_3, hash_plainly_4,
};

/* True if the function has not started yet: tracebacks omit it. */
static bool is_incomplete(const struct python_layout *l, enum python_reading how,
			  const struct seen *seen)
{
	enum { OWNED_BY_GENERATOR = 1 };
	int32_t traceable;

	return seen->owner != OWNED_BY_GENERATOR &&
	       python_read(how, seen->code + l->code_traceable, &traceable, sizeof traceable) &&
	       (intptr_t)(seen->instruction - (seen->code + l->code_units)) <
		       (intptr_t)traceable * PYTHON_UNIT;
}

/* Assigns the frames so far that have no loop yet to the interpreter loop with this record. */
static void end_loop(struct python_area *area, uintptr_t loop)
{
	if (area->count > 0 && area->frame[area->count - 1].loop == 0)
		area->frame[area->count - 1].loop = loop;
}

/* Collects the frames in the area. False: unreadable. */
static bool collect(struct python_area *area, const struct python_layout *l,
		    enum python_reading how, uintptr_t state)
{
	uintptr_t at, loop;
	struct seen seen;

	area->count = 0;
	if (!innermost(l, how, state, &at, &loop))
		return false;
	for (uint32_t steps = area->limit; at != 0 && steps > 0; steps--, at = seen.previous) {
		if (!see(l, how, at, &seen))
			return false;
		if (is_entry_frame(l, &seen)) {
			end_loop(area, at);
			continue;
		}
		if (!is_incomplete(l, how, &seen)) {
			struct python_frame *f = &area->frame[area->count++];

			*f = (struct python_frame){ .code = seen.code,
						    .instruction = seen.instruction };
			if (!python_version(l, how, f->code, &f->version))
				return false;
		}
		if (!seen.is_entry)
			continue;
		end_loop(area, loop);
		if (!python_read(how, loop + l->loop_previous, &loop, sizeof loop))
			return false;
	}
	return true;
}

/* Reuses the ids of frames that have the same position from the root in the previous stack. */
static void take_over(struct python_area *area)
{
	uint32_t shared = MIN(area->count, area->last_count);

	for (uint32_t i = 1; i <= shared; i++) {
		struct python_frame *f = &area->frame[area->count - i];
		const struct python_frame *last = &area->last[area->last_count - i];

		if (f->code != last->code || f->instruction != last->instruction ||
		    f->version != last->version)
			break;
		f->id = last->id;
	}
}

static void name_frames(struct slot *slot, struct python_area *area, enum python_reading how)
{
	struct python_frame *named = area->frame;

	take_over(area);
	for (uint32_t i = 0; i < area->count && named[i].id == 0; i++)
		named[i].id = python_frame_id(slot, how, named[i].code, named[i].version,
					      named[i].instruction);
	area->frame = area->last;
	area->last = named;
	area->last_count = area->count;
}

/* The record of the loop that runs frame i; UINTPTR_MAX: unknown, i.e. outside of all. */
static uintptr_t loop_of(const struct python_frame *frame, uint32_t count, uint32_t i)
{
	while (i < count && frame[i].loop == 0)
		i++;
	return i < count ? frame[i].loop : UINTPTR_MAX;
}

/* Places the functions of each interpreter loop at its native frame. Returns the number of frames, at the end of area->id. */
static uint32_t merge(const struct walk *walk, const struct python_area *area)
{
	const struct python_frame *frame = area->last;
	uint32_t next = 0, *id = area->id + 2ull * area->limit;

	for (uint32_t k = walk->count; k-- > 0;) {
		uintptr_t top = k > 0 ? walk_boundary(walk, k - 1) : UINTPTR_MAX;

		while (next < area->count && loop_of(frame, area->count, next) < top) {
			do
				*--id = frame[next].id;
			while (frame[next++].loop == 0);
		}
		*--id = rule_frame(walk->info[k].rule);
	}
	while (next < area->count) /* the native stack ended earlier */
		*--id = frame[next++].id;
	return (uint32_t)(area->id + 2ull * area->limit - id);
}

/* Builds the chain of frames; the part shared with the previous chain, from the root on, is known. */
static void make_chain(struct python_area *area, uint32_t count, uint32_t mark)
{
	struct site_chain *chain = &area->chain;
	uint32_t same = 0;

	if (count > area->limit) { /* keep the innermost frames */
		count = area->limit;
		mark = LIVE_FRAME_CUT;
	}
	const uint32_t *id = area->id + 2ull * area->limit - count;

	while (mark == chain->mark && same < MIN(count, chain->known) &&
	       chain->frame[same] == id[same])
		same++;
	chain->known = same; /* before the rest changes: the hook may be abandoned here */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__builtin_memcpy(chain->frame + same, id + same, (count - same) * sizeof *id);
	chain->count = count;
	chain->mark = mark;
}

static ALWAYS_INLINE struct slot_recent *recent_of(struct python_area *area, uint64_t key)
{
	return &area->recent[key >> 32 & (RECENT - 1)];
}

/* Adds a stack that the slot has no counters for yet. */
static COLD uint32_t add(struct slot *slot, uint64_t key, struct origin origin, uintptr_t state,
			 enum python_reading how, const uintptr_t *frame)
{
	struct python_area *area = area_of(slot);

	if (area == NULL || !collect(area, python_here->layout, how, state) || area->count == 0) {
		health_add(HEALTH_python_unread);
		return 0;
	}
	name_frames(slot, area, how);
	walk_stack(slot, frame);
	make_chain(area, merge(slot->walk, area), slot->walk->mark);
	return sites_counters_of_chain(slot, &area->chain, key, origin);
}

/* Looks up a stack whose counters the slot has not looked up lately. Separate, so that python_counters needs few registers. */
static NOINLINE uint32_t find(struct slot *slot, uint64_t key, struct origin origin,
			      uintptr_t state, enum python_reading how, const uintptr_t *frame)
{
	struct python_area *area = slot->python;
	uint32_t known = slot_find(slot, key);

	if (known == 0 && state != 0)
		known = add(slot, key, origin, state, how, frame);
	if (known == 0)
		known = sites_counters(slot, walk_stack(slot, frame), origin);
	if (area != NULL && known != slot->counters_of_other[origin.kind])
		slot_remember(recent_of(area, key), key, known);
	return known;
}

/* Separate for the same reason. */
static COLD uint64_t hash_safely(uintptr_t state, uint32_t limit)
{
	return hash_frames(python_here->layout, PYTHON_SAFELY, state, limit);
}

NOINLINE uint32_t python_counters(struct slot *slot, uint64_t native, struct origin origin,
				  bool interrupted, const uintptr_t *frame)
{
	enum python_reading how = PYTHON_UNREADABLE;
	uintptr_t state = python_state(interrupted, &how);
	uint64_t hash = 0;

	/* A block of Python's own pools shows that they are recorded. */
	if (UNLIKELY(python_visit != NULL) && origin.kind < LIVE_KIND_POOL && state != 0 &&
	    how == PYTHON_PLAINLY && (uintptr_t)python_here->attached_state() == state)
		python_visit(origin.kind == LIVE_KIND_MMAP ? frame[1] : 0);
	if (UNLIKELY(python_task_label != NULL))
		slot->task = python_task_label(slot, how, state);
	if (LIKELY(state != 0 && how == PYTHON_PLAINLY))
		hash = hash_plainly[python_here->version](state, slot->walk->limit);
	else if (state != 0)
		hash = hash_safely(state, slot->walk->limit);
	uint64_t key = sites_key(native + hash * UINT64_C(0xa0761d6478bd642f), origin);
	struct python_area *area = slot->python;

	if (LIKELY(area != NULL && recent_of(area, key)->key == key))
		return (uint32_t)recent_of(area, key)->counters;
	return find(slot, key, origin, hash != 0 ? state : 0, how, frame);
}

void python_forget(struct slot *slot)
{
	struct python_area *area = slot->python;

	if (area != NULL)
		__builtin_memset(area->recent, 0, sizeof area->recent);
}
