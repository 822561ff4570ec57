/* SPDX-License-Identifier: Apache-2.0 */
/* The stack walk: from the hook's caller to the root, reusing the part that has not changed since this thread's last walk.
 *
 * Why that is sound: a walk is a function of (pc, sp, fp) and of the words it reads. All words that the last walk read are stored.
 * If the new walk reaches a frame whose address and return address match a stored one (and fp, if an outer frame depends on it),
 * and every word that the old walk read from there on is unchanged, the rest of the old walk is what a full walk would yield. */
#ifndef RECORDER_UNWIND_WALK_H
#define RECORDER_UNWIND_WALK_H

#include "recorder/slot.h"
#include "recorder/unwind/readable_stack.h"

/* Frames are numbered from the root: 0 is the outermost. */
struct walk_frame {
	uintptr_t at, pc; /* address of the return address, and its value, which may be signed */
};
struct walk_info {
	uint64_t rule; /* with WALK_NEEDS_FP: some frame from here to the root depends on this fp */
	uint64_t hash; /* of all frames from the root to this one */
	uint32_t node; /* 0 = not looked up yet */
	uint32_t
		counters; /* this slot's heap counters for the stack up to here, with the entry in the upper bits: see sites_counters(); 0 = not looked up yet */
	uintptr_t fp;	  /* in this frame; only with WALK_NEEDS_FP */
#if ARCH_RETURN_VARIES
	uintptr_t sp; /* in this frame: where its callee's ends */
#endif
};
enum { WALK_NEEDS_FP = 1 << 27 };
/* A word other than a return address that frame `index` depends on; -1 = beyond the root. */
struct walk_check {
	uintptr_t at, word;
	int32_t index;
};
/* A frame of the walk in progress, innermost first. */
struct walk_fresh {
	uintptr_t at, pc;
	uint64_t rule;
	uintptr_t fp; /* in this frame, if its rule uses fp */
#if ARCH_RETURN_VARIES
	uintptr_t sp;
#endif
};

struct walk {
	struct walk_frame *frame; /* frame[-1] is above every stack */
	struct walk_info *info;
	struct walk_check *check;	/* of the stored walk, by ascending index */
	struct walk_check *fresh_check; /* of the walk in progress; index as in fresh[] */
	struct walk_fresh *fresh;
	uint32_t limit, count, checks;
	uint32_t mark;	     /* enum live_frame_mark at the root; 0 = a complete stack */
	uint32_t generation; /* of modules_generation */
	uint32_t stamp;	     /* of the stack range */
	bool unreadable;     /* it ended at unreadable memory */
};

uint64_t walk_bytes(uint32_t limit);
/* Lays out the arrays in zeroed memory of walk_bytes(limit). */
struct walk *walk_place(void *room, uint32_t limit);

/* Walks from the caller of the hook whose frame record (saved fp, return address) is given. Returns the hash of the stack;
 * slot->walk then holds its frames. */
uint64_t walk_stack(struct slot *slot, const uintptr_t *frame);

/* True if no object on the stack can be replaced without notice, so that the walk may be cached. */
bool walk_is_lasting(const struct walk *walk);

/* The same with the full interpreter, for frames whose rules need more than sp and fp: slow_walk.c. */
uint64_t walk_slowly(struct slot *slot, const uintptr_t *frame);

/* For the slow walk: stores walk->fresh[0, c) as the whole stack, with `mark` at its root; it is never reused. */
uint64_t walk_take(struct walk *walk, uint32_t c, uint32_t mark);

/* True if the kernel put code at `pc` that returns from a signal handler and has no call frame information. */
bool walk_is_signal_code(uintptr_t pc);

/* True if the hook with the record `frame` is still on the running stack, outside of the hook `inner`. Touches no stored walk: may
 * be called while a hook is interrupted. */
bool walk_is_running(struct slot *slot, uintptr_t inner, uintptr_t frame);

/* sp in a frame of struct walk_info or walk_fresh. If the return address is always at the same place, its address tells. */
#if ARCH_RETURN_VARIES
#define WALK_SP(described, return_at) ((described)->sp)
#define WALK_SET_SP(described, value) ((described)->sp = (value))
#else
#define WALK_SP(described, return_at) ((return_at) - (uintptr_t)ARCH_RETURN_AT)
#define WALK_SET_SP(described, value) ((void)0)
#endif

/* An address between frame k and the locals of its callee, which are below. */
static ALWAYS_INLINE uintptr_t walk_boundary(const struct walk *walk, uint32_t k)
{
	return ARCH_RETURN_VARIES ? WALK_SP(&walk->info[k], 0) : walk->frame[k].at;
}

static ALWAYS_INLINE uint64_t walk_hash(uint64_t hash, uint32_t frame)
{
	hash = (hash ^ frame) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}
#endif
