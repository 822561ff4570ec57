/* SPDX-License-Identifier: Apache-2.0 */
/* Per-thread state: the slot, and the thread-local block that points to it.
 *
 * A slot outlives its thread; a later thread inherits it (slot.c). Only the owning thread touches the fields below, unless
 * noted. The walk's arrays follow the struct, sized by the depth limit. */
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

/* A scope that the thread has entered. If longjmp left its function, the frame shows it: it lies below the current stack
 * pointer, or its saved word has changed. */
struct scope_kept {
	uintptr_t at; /* the frame; if unknown, the enclosing scope's */
	const uintptr_t *
		word_at; /* its return address, on the thread's own stack, or a word that never changes */
	uintptr_t word;
	uint32_t before; /* the outer tag, or the one set since by hg_context_set */
};
enum { SCOPES_KEPT = 16 }; /* deeper ones are not checked after a longjmp */

/* The last call of a tcmalloc inside the executable, which may be half of a realloc. */
struct slot_resized {
	struct live_site_counters *counters; /* of an allocation; or NULL */
	const void *block;		     /* freed, but by a realloc that returns it; or NULL */
	uint64_t size_bytes;
};

/* Of timed calls: timed_calls.c. */
struct slot_timed {
	uintptr_t guard, frame; /* of the forwarded call that runs; 0 = none */
	uint64_t ticks;		/* that the last timed allocation took */
	const void *freed;	/* the last block that was recorded as freed ... */
	uint32_t freed_site;	/* ... and its site */
};

struct slot {
	uint32_t id;
	uint32_t thread; /* thread number of its site counters: live_thread.counted_as */
	uint32_t counters_of_other[LIVE_KINDS]; /* this slot's counters of LIVE_SITE_OTHER_* */
	struct live_slot *live;
	int64_t floor, ceiling; /* live bytes at which to publish; others set them: account.h */
	int64_t published;	/* its live bytes in the total; others write it too: account.c */
	struct slot *next;	/* account.c */
	uint64_t last_calls;	/* the countdown's calls at the last sample */
	uint32_t last_weight;	/* of the last sample */
	void *last_block; /* the last block this thread allocated: freeing it next makes it temporary */
	struct walk *walk;
	uintptr_t inner_end; /* frames below this address are an allocator's own; 0 = none */
	struct slot_resized resized; /* hooks_tcmalloc.c */
	const uint64_t *its_bytes
		[2]; /* of this thread, in jemalloc: hooks_jemalloc.c; NULL: not looked up yet */
	struct stack_cache *cache_memory; /* NULL: no memory, or too many slots */
	struct stack_cache *stack_cache;  /* cache_memory once it is in use: after some walks */
	uint32_t walks;			  /* walks made without the cache */
	struct stack_cache *
		fast_cache; /* the stack_cache if site counters depend on the native stack alone; else NULL */
	struct stack_cache *
		fast_cache_untagged; /* value of `fast_cache` while no tag is set: NULL if an interpreter may have frames */
	struct python_area *python; /* interpreter frames: python/stack.c; NULL: none yet */
	struct python_tasks *tasks; /* tasks read so far: python/tasks.c; NULL: none yet */
	uint32_t task; /* label of the task on the stack that python_counters saw last; 0: none */
	struct slot_tags *tags;
	struct lock *pool_lock;		  /* held or awaited by this slot: pools.c */
	struct pool_cache *pool_cache;	  /* cache for busy pools: pool_words.h; NULL: none yet */
	struct scope_kept *scope;	  /* the innermost kept scope */
	uintptr_t stack_low, stack_bytes; /* the thread's own stack, as far as scopes know it */
	struct table site_counters;	  /* ids of site counters, by the site's key */
	struct stack_ranges *ranges;
	struct cfi_scratch *cfi;	/* for rules and the slow walk */
	struct cfi_scratch *cfi_nested; /* for walk_is_running, which may interrupt `cfi` */
	bool cfi_nested_busy;
	uint64_t operations_at_tick;	  /* clock.c */
	uint64_t clock_seen_ms;		  /* the last time seen */
	uint32_t clock_seen;		  /* how often it was seen */
	uint32_t leased_calls;		  /* mode.c */
	char *exec_area, *arguments_area; /* for exec: exec.c */
	size_t exec_bytes, arguments_bytes;
	char *path_area; /* for the path of an object: modules.c */
	struct block_cache block_cache;
	struct scope_kept scopes[SCOPES_KEPT + 1];  /* [0] is no scope: it ends with the thread */
	const struct thread_state *owner;	    /* of the owning thread, for checks */
	struct live_pairs *pairs[LIVE_PAIRS_KINDS]; /* counters/pairs.c; NULL: none yet */
	bool lacks_pairs;			    /* there was no memory for them */
	struct slot_timed timed;
	struct otel_attributes *otel; /* of a context: otel/thread_context.c; NULL: none yet */
};

/* The thread-local block: plain data, initial-exec, no destructor. */
struct thread_state {
	uintptr_t countdown; /* offset of the word that leads to the countdown: countdown.h */
	uint64_t
		interval; /* sampling interval of the next sample; 0: the countdown does not lead to a sample */
	uint64_t random;   /* state of the sampler's generator; 0: not seeded */
	bool left_is_part; /* the countdown covers a part of the distance: no sample at its end */
	bool stopped;	   /* by the program: record nothing */
	uint64_t
		token; /* equals *fork_token while `slot` is this thread's in this process; never 0, the value after a fork */
	struct slot *slot;
	uintptr_t guard;	    /* frame of the running hook, with GUARD_* bits; 0 = none */
	uint32_t calls_until_retry; /* calls until this thread tries again to get a slot */
	uintptr_t wrapping;	    /* frame of the outermost wrapped call; 0 = none: wrapped.c */
	uint32_t tag;		    /* current tag of the thread's allocations; 0 = none: tags.h */
	/* Block that the pending operator new got from malloc and that is not recorded yet; NULL = none. */
	void *taken;
	uint64_t taken_bytes;
	/* Block that the running operator delete frees, and its entry; counters 0 = accounted for. */
	void *deleted;
	struct block deleted_entry;
	/* Block that libc allocated for the thread inside of another allocator, and frees when the thread ends; NULL = none. */
	void *of_libc;
	uintptr_t own_word; /* mode.c */
	struct live_countdown own_countdown;
};
extern __thread struct thread_state thread_state __attribute__((tls_model("initial-exec")));

/* Starts over in a forked child. */
void slot_reset(void);

/* Gives the calling thread a slot: a dead thread's or a new one. NULL: none available (the caller counts it). */
struct slot *slot_acquire(void);

/* Reserves memory for one more site's counters, so that slot_counters fails only if another slot is faster. Stays above the
 * memory reserve, unless `use_reserve`. */
bool slot_reserve(struct slot *slot, bool use_reserve);

/* Allocates the slot's counters of a site. Never 0: falls back to those of [other]. */
uint32_t slot_counters(struct slot *slot, uint64_t key, uint32_t site, enum live_kind kind,
		       bool use_reserve);

/* Counts a remote free: the slot's thread frees blocks that `owner` allocated. */
void slot_freed_for(struct slot *slot, const struct live_site_counters *owner, uint64_t blocks,
		    uint64_t bytes);

/* Looks up the slot's counters by a site's key; 0 = none. */
static ALWAYS_INLINE uint32_t slot_find(const struct slot *slot, uint64_t key)
{
	uint32_t tag = table_tag(key), place = tag, counters;

	do
		counters = table_next(&slot->site_counters, tag, &place);
	while (UNLIKELY(counters != 0 && memory_counters(counters)->key != key));
	return counters;
}

/* An entry of a slot's cache of counters that it looked up lately, since entries in its table are far apart. */
struct slot_recent {
	uint64_t key; /* 0 = none */
	uint64_t counters;
};

/* The hook may be abandoned between the stores (siglongjmp). */
static inline void slot_remember(struct slot_recent *recent, uint64_t key, uint32_t counters)
{
	recent->key = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	recent->counters = counters;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	recent->key = key;
}
#endif
