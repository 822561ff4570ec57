/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorded thread works with: its slot, and the thread-local block that leads there.
 *
 * A slot outlives its thread; a later thread inherits it (slot.c). Everything here is touched by the owning
 * thread alone. The walk's arrays lie behind the struct, sized by the depth limit. */
#ifndef RECORDER_SLOT_H
#define RECORDER_SLOT_H

#include <stdbool.h>

#include "recorder/counters/blocks.h"
#include "recorder/memory.h"
#include "recorder/table.h"

struct walk;
struct stack_cache;
struct stack_ranges;
struct cfi_scratch;
struct lock;
struct thread_state;

enum { SLOT_LIMIT = 1 << 16 };

/* A scope that the thread is in. One whose function was left by longjmp is known by its frame: that lies deeper than the
 * stack is now, or a word of it has changed. */
struct scope_kept {
	uintptr_t at; /* the frame; where that is not known, of the scope outside */
	const uintptr_t *
		word_at; /* its return address, on a stack of the thread's own, or a word that never changes */
	uintptr_t word;
	uint32_t before; /* the tag outside, or what the thread was given since: hg_context_set */
};
enum { SCOPES_KEPT = 16 }; /* deeper ones are not checked after a longjmp */

struct slot {
	uint32_t id;
	uint32_t thread; /* the number that its site counters have: live_thread.counted_as */
	uint32_t counters_of_other[LIVE_KINDS]; /* this slot's counters of LIVE_SITE_OTHER_* */
	struct live_slot *live;
	int64_t floor, ceiling; /* live bytes at which the slot has to report: account.h */
	int64_t reported;     /* of this slot's live bytes, in that total; under account.c's lock */
	struct slot *next;    /* account.c */
	uint64_t last_calls;  /* of the countdown when it was a sample */
	uint32_t last_weight; /* of the last sample */
	void *last_block; /* the last block this thread allocated: freeing it next makes it temporary */
	struct walk *walk;
	struct stack_cache *cache_memory; /* NULL: none, or so many slots that they go without */
	struct stack_cache *stack_cache;  /* the same once it is used: after some walks */
	uint32_t walks;			  /* that were made without it */
	struct stack_cache *
		quick; /* the stack_cache where a block belongs to its stack alone; NULL: there is more to it */
	struct stack_cache *
		quick_untagged; /* what `quick` is without a tag: NULL too where an interpreter has frames of its own */
	struct python_area
		*python; /* for the frames of an interpreter: python/stack.c; NULL: none yet */
	struct slot_tags *tags;
	struct lock *pool_lock;		  /* that this slot holds or waits for: pools.c */
	struct scope_kept *scope;	  /* the innermost one that is kept */
	uintptr_t stack_low, stack_bytes; /* of the thread's own stack, as far as scopes know it */
	struct table site_counters;	  /* of sites, by key */
	struct stack_ranges *ranges;
	struct cfi_scratch *cfi;	/* for rules and the slow walk */
	struct cfi_scratch *cfi_nested; /* for walk_is_running, which may interrupt those */
	bool cfi_nested_busy;
	uint64_t operations_at_tick;	  /* clock.c */
	uint64_t clock_seen_ms;		  /* the last time that it saw */
	uint32_t clock_seen;		  /* how often */
	uint32_t leased_calls;		  /* mode.c */
	char *exec_area, *arguments_area; /* for a program that is started: exec.c */
	size_t exec_bytes, arguments_bytes;
	char *path_area; /* for the path of an object: modules.c */
	struct blocks_near near;
	struct scope_kept scopes[SCOPES_KEPT + 1]; /* [0] is no scope: it ends with the thread */
	const struct thread_state *owner;	   /* the thread's, for checks */
};

/* The thread-local block: plain data, initial-exec, no destructor. */
struct thread_state {
	uintptr_t countdown; /* distance of the word that leads to the thread's: countdown.h */
	uint64_t
		interval; /* of the sample that comes next; 0: the countdown is not a distance to one */
	uint64_t random;   /* of samples; 0: not begun */
	bool left_is_part; /* of the distance: no sample at its end */
	bool stopped;	   /* by the program: nothing is recorded */
	uint64_t
		token; /* equals *fork_token while `slot` is this thread's in this process; never 0, as a wiped one is */
	struct slot *slot;
	uintptr_t guard; /* frame of the hook that is running, with GUARD_* bits; 0 = none */
	uint32_t calls_until_retry; /* before this thread tries to get a slot again */
	uintptr_t wrapping;	    /* frame of the outermost wrapped call; 0 = none: wrapped.c */
	uint32_t tag;		    /* what the thread allocates belongs to; 0 = none: tags.h */
	/* What the running operator new has taken from malloc, and nobody has recorded yet; NULL = nothing. */
	void *taken;
	uint64_t taken_bytes;
	/* What the running operator delete gives back, and its entry; counters 0 = accounted for. */
	void *deleted;
	struct block deleted_entry;
	uintptr_t own_word; /* mode.c */
	struct live_countdown own_countdown;
};
extern __thread struct thread_state thread_state __attribute__((tls_model("initial-exec")));

/* A fork's child begins anew. */
void slot_reset(void);

/* Gives the calling thread a slot: a dead thread's or a new one. NULL: there is none (counted). */
struct slot *slot_acquire(void);

/* Room for one site's counters more, so that slot_counters will not fail for want of it unless another slot is faster. Above the
 * reserve of memory, unless `must`. */
bool slot_reserve(struct slot *slot, bool must);

/* The slot's counters of a site that it has none of yet. Never 0: falls back to those of [other]. */
uint32_t slot_counters(struct slot *slot, uint64_t key, uint32_t site, enum live_kind kind,
		       bool must);

/* The slot's thread frees what another has allocated. */
void slot_freed_for(struct slot *slot, const struct live_site_counters *owner, uint64_t blocks,
		    uint64_t bytes);

/* The slot's counters for a site's key; 0 = none. */
static ALWAYS_INLINE uint32_t slot_find(const struct slot *slot, uint64_t key)
{
	uint32_t tag = table_tag(key), place = tag, counters;

	do
		counters = table_next(&slot->site_counters, tag, &place);
	while (UNLIKELY(counters != 0 && memory_counters(counters)->key != key));
	return counters;
}
#endif
