/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the stack cache. Owns the slots' stack caches; each is used by its own thread only.
 *
 * Invariant: place[] refers only to complete entries of the ring; the first entry is unused. */
#include "recorder/unwind/stack_cache.h"

#include "recorder/python/interpreter.h"

enum {
	RING_FIRST = 256 * 1024,
	RING_OTHERS = 64 * 1024,
	SLOTS_WITH_CACHE = 64,
	FIRST_WALKS = 32, /* made before a thread gets a cache */
	WORTH = 8, /* if fewer than one in this many cached walks recur, filling the ring is not worth it */
	REST = 16, /* then this many times as many walks are skipped before the next attempt */
	STAMP_SHIFT = 48, /* above any address */
};

_Static_assert(sizeof(struct stack_cache_entry) == 32 && sizeof(struct stack_cache_row) == 64,
	       "aligned as their tables");

/* A file's memory is populated at once. */
static uint32_t ring_bytes(uint32_t slot)
{
	return slot == 0 && !memory_is_file() ? RING_FIRST : RING_OTHERS;
}

struct stack_cache *stack_cache_memory(uint32_t slot)
{
	return slot < SLOTS_WITH_CACHE
		       ? memory_scratch(sizeof(struct stack_cache) + ring_bytes(slot))
		       : NULL;
}

void stack_cache_forget(struct slot *slot)
{
	struct stack_cache *stack_cache = slot->stack_cache;

	if (stack_cache == NULL)
		return;
	if (stack_cache
		    ->is_touched) { /* else a process that allocates once would touch all pages */
		__builtin_memset(stack_cache->place, 0, sizeof stack_cache->place);
		__builtin_memset(stack_cache->row, 0, sizeof stack_cache->row);
	}
	stack_cache->is_touched = false;
	stack_cache->used = sizeof(struct stack_cache_entry);
	stack_cache->added = stack_cache->missed = 0;
	stack_cache->calls = slot->live->calls;
}

/* Starts over when the ring is full. */
static void begin_again(struct slot *slot)
{
	struct stack_cache *stack_cache = slot->stack_cache;
	uint64_t found = slot->live->calls - stack_cache->calls - stack_cache->missed;

	stack_cache->rest = found < stack_cache->added / WORTH ? stack_cache->added * REST : 0;
	stack_cache_forget(slot);
}

NOINLINE const struct stack_cache_entry *stack_cache_find_other(
	const struct stack_cache *stack_cache, struct stack_cache_row *row, uint64_t hash)
{
	uint64_t place = stack_cache_set(row, hash, row->at);

	for (uint64_t way = 0; way < STACK_CACHE_WAYS; way++) {
		uint32_t offset = stack_cache->place[place ^ way];
		const struct stack_cache_entry *entry = stack_cache_entry(stack_cache, offset);

		if (entry->key == row->key && stack_cache_holds(entry)) {
			row->last = offset;
			return entry;
		}
	}
	return NULL;
}

/* Returns the caller's row, replacing another's if needed. */
static struct stack_cache_row *row_for(struct stack_cache *stack_cache, const struct walk *walk,
				       uintptr_t at, uintptr_t caller, enum live_entry entry_point)
{
	uint64_t hash = stack_cache_hash(at, caller);
	struct stack_cache_row *row = stack_cache_row(stack_cache, hash, at, caller);

	if (row != NULL && row->stamp == walk->stamp)
		return row;
	if (row == NULL) {
		uint64_t n = hash >> 32 & (STACK_CACHE_ROWS - 1);

		row = &stack_cache->row[stack_cache->row[n].at != 0 ? n ^ 1 : n];
	}
	*row = (struct stack_cache_row){ .at = at,
					 .caller = caller,
					 .stamp = walk->stamp,
					 .key = (at + entry_point) | (uint64_t)walk->stamp
									     << STAMP_SHIFT };
	return row;
}

/* Two stacks of one row map to the same place: from now on the innermost word in which they differ discriminates them. */
static void add_discriminator(struct stack_cache_row *row, const struct stack_cache_entry *a,
			      const struct stack_cache_entry *b)
{
	const uintptr_t *x = (const uintptr_t *)(const void *)((const char *)a + a->bytes) - 2;
	const uintptr_t *y = (const uintptr_t *)(const void *)((const char *)b + b->bytes) - 2;
	uint32_t left = (MIN(a->bytes, b->bytes) - (uint32_t)sizeof *a) / 16;

	for (; left > 0 && x[0] == y[0] && x[1] == y[1]; left--, x -= 2, y -= 2)
		;
	if (left == 0 || x[0] != y[0] || row->discriminators == STACK_CACHE_DISCRIMINATORS)
		return;
	uint32_t discriminator = (uint32_t)(x[0] - row->at);

	for (uint32_t k = 0; k < row->discriminators; k++) {
		if (row->discriminator[k] == discriminator)
			return; /* it discriminates them already: a hash collision */
	}
	row->discriminator[row->discriminators++] = discriminator;
}

static void fill(struct stack_cache_entry *entry, const struct walk *walk, const uintptr_t *frame)
{
	struct walk_frame *pair = (struct walk_frame *)(void *)(entry + 1);
	const struct walk_frame fp = { (uintptr_t)frame, frame[0] }; /* where the hook saved it */
	bool needs_fp = walk->info[walk->count - 1].rule & WALK_NEEDS_FP;

	for (uint32_t n = walk->count + walk->checks + needs_fp + ARCH_RETURN_VARIES; n % 4 != 0;
	     n++)
		*pair++ = walk->frame[0];
	for (uint32_t i = 0; i < walk->checks; i++)
		*pair++ = (struct walk_frame){ walk->check[i].at, walk->check[i].word };
	if (needs_fp)
		*pair++ = fp;
	if (ARCH_RETURN_VARIES) /* the same return address does not mean the same sp */
		*pair++ = (struct walk_frame){ (uintptr_t)(frame + 2),
					       frame[ARCH_RETURN_VARIES ? 2 : 0] };
	__builtin_memcpy(pair, walk->frame, walk->count * sizeof *pair);
	entry->bytes = (uint32_t)((char *)(pair + walk->count) - (char *)entry);
}

/* Enables the cache lazily: most processes of a shell script or a build
 * allocate only a few times, and its pages would be most of what they touch. */
static void begin_late(struct slot *slot)
{
	struct stack_cache *stack_cache = slot->cache_memory;

	if (++slot->walks != FIRST_WALKS || stack_cache == NULL)
		return;
	stack_cache->ring = (char *)(stack_cache + 1);
	stack_cache->bytes = ring_bytes(slot->id);
	stack_cache->used = sizeof(struct stack_cache_entry);
	stack_cache->calls = slot->live->calls;
	slot->stack_cache = stack_cache;
	slot->fast_cache_untagged = python_is_here() ? NULL : stack_cache;
	if (thread_state.tag == 0)
		slot->fast_cache = slot->fast_cache_untagged;
}

NOINLINE void stack_cache_add(struct slot *slot, const uintptr_t *frame, uint32_t counters,
			      enum live_entry entry_point)
{
	const struct walk *walk = slot->walk;
	struct stack_cache *stack_cache = slot->stack_cache;
	uint32_t bytes = (uint32_t)sizeof(struct stack_cache_entry) +
			 (walk->count + walk->checks + 4 + ARCH_RETURN_VARIES) * 16;

	if (stack_cache == NULL) {
		begin_late(slot);
		return;
	}
	stack_cache->missed++;
	/* A walk without a stamp must not be reused, nor one through objects that may be replaced without notice. Very deep or complex
	 * ones are not worth their space. */
	if (walk->stamp == 0 || walk->count == 0 || walk->count > STACK_CACHE_FRAMES ||
	    walk->checks > STACK_CACHE_CHECKS || !walk_is_lasting(walk))
		return;
	if (stack_cache->rest > 0) {
		stack_cache->rest--;
		return;
	}
	if (stack_cache->used + bytes > stack_cache->bytes)
		begin_again(slot);
	uint32_t epoch = walk->stamp >> (64 - STAMP_SHIFT);

	if (stack_cache->generation != walk->generation || stack_cache->epoch != epoch)
		stack_cache_forget(slot);
	stack_cache->generation = walk->generation;
	stack_cache->epoch = epoch;
	stack_cache->is_touched = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	uintptr_t at = (uintptr_t)(frame + 1), caller = frame[1] + entry_point;
	struct stack_cache_row *row = row_for(stack_cache, walk, at, caller, entry_point);
	struct stack_cache_entry *entry = stack_cache_entry(stack_cache, stack_cache->used);

	entry->key = row->key;
	entry->counters = counters;
	entry->hash = walk->info[walk->count - 1].hash;
	fill(entry, walk, frame);

	uint64_t hash = stack_cache_hash(at, caller);
	uint64_t place = stack_cache_set(row, hash, at);

	for (uint64_t way = 0; way < STACK_CACHE_WAYS; way++) {
		const struct stack_cache_entry *there =
			stack_cache_entry(stack_cache, stack_cache->place[place ^ way]);

		if (there->key == entry->key)
			add_discriminator(row, there, entry);
	}
	place = stack_cache_set(row, hash, at);
	for (uint64_t way = STACK_CACHE_WAYS - 1; way > 0; way--)
		stack_cache->place[place ^ way] = stack_cache->place[place ^ (way - 1)];
	stack_cache->place[place] = stack_cache->used;
	row->last = stack_cache->used;
	stack_cache->used += entry->bytes;
	stack_cache->added++;
}
