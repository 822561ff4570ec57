/* SPDX-License-Identifier: Apache-2.0 */
/* Slow paths of an allocation: walking the stack, inserting a block that the map's fast path rejects, and every mode but exact.
 * Owns nothing. Runs inside a hook. */
#include "recorder/hooks/allocation.h"

#include "recorder/api/pool_words.h"
#include "recorder/api/tags.h"
#include "recorder/clock.h"
#include "recorder/counters/sites.h"
#include "recorder/hooks/free.h"
#include "recorder/hooks/linked_in.h"
#include "recorder/otel/thread_context.h"
#include "recorder/python/interpreter.h"
#include "recorder/python/stack.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/sampling/probes.h"
#include "recorder/sampling/sampled_blocks.h"
#include "recorder/sampling/timed_calls.h"
#include "recorder/unwind/walk.h"

/* The frames of an allocator that calls us end with the one that its hook knows, or with a function that the program called: operator new of
 * jemalloc, any of tcmalloc. */
static bool is_inner(const struct walk_frame *inner, const uintptr_t *frame, uintptr_t end)
{
	return inner->at - (uintptr_t)frame < end - (uintptr_t)frame ||
	       inner->pc - linked_in_entry < linked_in_entry_bytes;
}

/* The counters of the stack without the allocator's own frames; at least one frame is left. The walk keeps them all: what is
 * cached depends on them. */
NOINLINE static uint32_t counters_of_outer(struct slot *slot, const uintptr_t *frame, uint64_t hash,
					   uintptr_t inner_end, struct origin origin)
{
	struct walk *walk = slot->walk;
	uint32_t depth = walk->count;

	while (walk->count > 1 && is_inner(&walk->frame[walk->count - 1], frame, inner_end))
		hash = walk->info[--walk->count - 1].hash;
	uint32_t id = sites_counters(slot, hash, origin);

	walk->count = depth;
	return id;
}

/* Walks the stack of an allocation, caches it and returns its hash. Calls from the loader are never cached, so that each of them
 * gets here. counters: receives the site's counters, allocated if needed; NULL if the stack may have Python frames. inner_end: frames below
 * this address are an allocator's own; 0: none. */
static ALWAYS_INLINE uint64_t walk_and_cache(struct slot *slot, const uintptr_t *frame,
					     uint32_t *counters, uintptr_t inner_end,
					     enum live_entry entry)
{
	struct origin origin = origin_heap(entry);
	bool by_loader = modules_is_loader(frame[1]);
	uint32_t id = 0;

	clock_tick(slot);
	if (by_loader)
		modules_loader_allocates(slot);
	uint64_t hash = walk_stack(slot, frame);

	if (counters != NULL)
		id = *counters = inner_end == 0
					 ? sites_counters(slot, hash, origin)
					 : counters_of_outer(slot, frame, hash, inner_end, origin);
	if (CHECKED)
		check_walk(slot->walk);
	if (!by_loader && (counters == NULL || id != slot->counters_of_other[LIVE_KIND_HEAP]))
		stack_cache_add(slot, frame, id, entry);
	return hash;
}

static ALWAYS_INLINE uint32_t tag_here(struct slot *slot, const uintptr_t *frame)
{
	if (thread_state.tag != 0 && UNLIKELY(tags_is_stale(slot->scope, (uintptr_t)frame)))
		tags_settle(slot, (uintptr_t)frame);
	return thread_state.tag;
}

/* The tag `name` below another one; `else_this` if there is no memory or the tags nest too deeply. */
static uint32_t tag_below(struct slot *slot, uint32_t tag, uint32_t name, uint32_t else_this)
{
	uint32_t below = tags_below(slot, tag, name);

	if (UNLIKELY(below == 0))
		health_add(HEALTH_lost_tags);
	return below != 0 ? below : else_this;
}

/* The tag of a stack that counters_of_kind() or counters_with_python() has just looked up: if an interpreter runs a task on it, its
 * label is the innermost tag. */
static ALWAYS_INLINE uint32_t tag_in_task(struct slot *slot, const uintptr_t *frame)
{
	uint32_t tag = tag_here(slot, frame);

	return LIKELY(slot->task == 0) ? tag : tag_below(slot, tag, slot->task, tag);
}

/* Maps the counters of a stack to those of the stack and a tag. */
static ALWAYS_INLINE uint32_t tagged(struct slot *slot, uint32_t id, uint32_t tag)
{
	return tag != 0 ? sites_counters_of_tag(slot, id, tag) : id;
}

/* True if the last walk may have crossed a signal frame. Only the full CFI interpreter crosses one; its walks have stamp 0, as have
 * truncated ones and those that met unreadable memory. */
static bool may_cross_signal_frame(const struct slot *slot)
{
	return slot->walk->stamp == 0;
}

/* Python may have been loaded since: the counters of a stack no longer depend on its native frames alone. */
static ALWAYS_INLINE void disable_fast_cache(struct slot *slot)
{
	slot->fast_cache = slot->fast_cache_untagged = NULL;
}

/* Returns the counters of a stack that may have Python frames. */
static ALWAYS_INLINE uint32_t counters_with_python(struct slot *slot, const uintptr_t *frame,
						   struct origin origin)
{
	/* What is cached is the native stack, whatever was called. */
	const struct stack_cache_entry *known =
		stack_cache_find(slot, slot->stack_cache, frame, LIVE_ENTRY_UNKNOWN);
	uint64_t native = LIKELY(known != NULL)
				  ? known->hash
				  : walk_and_cache(slot, frame, NULL, 0, LIVE_ENTRY_UNKNOWN);

	return python_counters(slot, native, origin, known == NULL && may_cross_signal_frame(slot),
			       frame);
}

/* The same for a stack without Python frames. */
static ALWAYS_INLINE uint32_t counters_native(struct slot *slot, const uintptr_t *frame,
					      enum live_entry entry)
{
	const struct stack_cache_entry *known =
		stack_cache_find(slot, slot->stack_cache, frame, entry);
	uint32_t id;

	if (known != NULL)
		return known->counters;
	walk_and_cache(slot, frame, &id, slot->inner_end, entry);
	return id;
}

NOINLINE uint32_t counters_of_walk(struct slot *slot, const uintptr_t *frame, enum live_entry entry)
{
	uint32_t id;

	if (UNLIKELY(python_is_here())) {
		disable_fast_cache(slot);
		id = counters_with_python(slot, frame, origin_heap(entry));
		return tagged(slot, id, tag_in_task(slot, frame));
	}
	if (UNLIKELY(slot->fast_cache == NULL))
		return tagged(slot, counters_native(slot, frame, entry), tag_here(slot, frame));
	walk_and_cache(slot, frame, &id, 0, entry);
	return id;
}

/* The same for a sample whose innermost tags are labels of the thread's OpenTelemetry context. */
static NOINLINE uint32_t counters_with_context(struct slot *slot, const uintptr_t *frame,
					       enum live_entry entry)
{
	uint32_t id;

	if (python_is_here()) {
		disable_fast_cache(slot);
		id = counters_with_python(slot, frame, origin_heap(entry));
	} else {
		id = counters_native(slot, frame, entry);
	}
	id = tagged(slot, id, otel_tag(slot, tag_in_task(slot, frame)));
	if (CHECKED)
		check_counters(slot, id);
	verify_stack(frame, id, false);
	return id;
}

static ALWAYS_INLINE uint32_t counters_of_sample(struct slot *slot, const uintptr_t *frame,
						 enum live_entry entry)
{
	return LIKELY(otel_key_count == 0) ? counters_of_stack(slot, frame, entry)
					   : counters_with_context(slot, frame, entry);
}

static NOINLINE uint32_t counters_of_kind_with_python(struct slot *slot, const uintptr_t *frame,
						      struct origin origin)
{
	return counters_with_python(slot, frame, origin);
}

/* Returns the counters of a mapping or a pool block, walking the stack each time; with Python the stack cache is used, because its
 * pools are as busy as malloc. */
static uint32_t counters_of_kind(struct slot *slot, const uintptr_t *frame, enum live_kind kind)
{
	return UNLIKELY(python_is_here())
		       ? counters_of_kind_with_python(slot, frame, origin_of(kind))
		       : sites_counters(slot, walk_stack(slot, frame), origin_of(kind));
}

/* The same for frees, which are as busy as malloc. */
NOINLINE uint32_t counters_of_freeing(struct slot *slot, const uintptr_t *frame)
{
	const struct origin origin = { LIVE_KIND_FREED, LIVE_ENTRY_FREE };

	if (UNLIKELY(python_is_here()))
		return counters_with_python(slot, frame, origin);
	const struct stack_cache_entry *known =
		stack_cache_find(slot, slot->stack_cache, frame, LIVE_ENTRY_FREE);

	if (known != NULL)
		return known->counters;
	uint32_t id = sites_counters(slot, walk_stack(slot, frame), origin);

	if (!modules_is_loader(frame[1]) && id != slot->counters_of_other[LIVE_KIND_FREED])
		stack_cache_add(slot, frame, id, LIVE_ENTRY_FREE);
	return id;
}

NOINLINE uint32_t counters_of_map(struct slot *slot, const uintptr_t *frame)
{
	uint64_t decision = mode_decide_map();

	if (decision == MODE_SKIP)
		return 0;
	if (decision == MODE_WITHOUT_STACK)
		return tagged(slot, sites_counters_without_stack(slot, origin_of(LIVE_KIND_MMAP)),
			      tag_here(slot, frame));
	uint32_t id = counters_of_kind(slot, frame, LIVE_KIND_MMAP);

	return tagged(slot, id, tag_in_task(slot, frame));
}

/* Caches sites_counters_of_tag, whose tables do not fit in the CPU caches. */
static ALWAYS_INLINE uint32_t counters_of_pool_tag(struct slot *slot, uint32_t id, uint32_t tag)
{
	struct pool_cache *cache = pool_cache_make(slot);
	uint64_t key = (uint64_t)id << 32 | tag;
	struct slot_recent none = { 0 },
			   *recent = cache != NULL ? &cache->tagged[id % POOL_TAGGED] : &none;

	if (LIKELY(recent->key == key))
		return (uint32_t)recent->counters;
	uint32_t counters = sites_counters_of_tag(slot, id, tag);

	/* Not if it fell back to [other]: memory may become available again. */
	if (memory_site(memory_counters(counters)->site)->node ==
	    memory_site(memory_counters(id)->site)->node)
		slot_remember(recent, key, counters);
	return counters;
}

NOINLINE uint32_t counters_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name,
				   bool stack)
{
	clock_tick(slot);
	uint32_t id = stack ? counters_of_kind(slot, frame, LIVE_KIND_POOL)
			    : sites_counters_without_stack(slot, origin_of(LIVE_KIND_POOL));

	uint32_t tag = stack ? tag_in_task(slot, frame) : tag_here(slot, frame);

	return counters_of_pool_tag(slot, id,
				    LIKELY(tag == 0) ? name : tag_below(slot, tag, name, name));
}

NOINLINE uint32_t counters_of_pool_sample(struct slot *slot, const uintptr_t *frame, uint32_t name)
{
	if (LIKELY(otel_key_count == 0))
		return counters_of_pool(slot, frame, name, true);
	clock_tick(slot);
	uint32_t id = counters_of_kind(slot, frame, LIVE_KIND_POOL);
	uint32_t tag = otel_tag(slot, tag_in_task(slot, frame));

	return counters_of_pool_tag(slot, id, tag == 0 ? name : tag_below(slot, tag, name, name));
}

NOINLINE void record_put(struct slot *slot, void *block, uint64_t size, uint32_t counters)
{
	clock_tick(slot);
	struct block entry = { .counters = counters, .birth_ms = clock_ms(), .size_bytes = size },
		     old;

	blocks_put(&slot->block_cache, (uintptr_t)block, &entry, &old);
	if (LIKELY(old.counters == 0))
		return;
	health_add(HEALTH_repaired_blocks);
	record_missed_end(slot, block, &old, 0, false);
}

/* Inserts a sample; ends an older one at the same address whose free we missed. */
static bool put_sample(struct slot *slot, void *block, const struct block *entry)
{
	struct block old;

	if (!sampled_blocks_put(slot, (uintptr_t)block, entry, &old))
		return false;
	sample_remember(block);
	if (UNLIKELY(old.counters != 0)) {
		health_add(HEALTH_repaired_blocks);
		probes_free(block);
		record_missed_end(slot, block, &old, 0, false);
	}
	return true;
}

/* Records a block as a sample. */
static struct live_site_counters *record_sample(struct slot *slot, void *block, uint64_t size,
						uint64_t fragmentation, uint64_t interval,
						const uintptr_t *frame, enum live_entry entry)
{
	uint32_t id =
		sites_counters_of_interval(slot, counters_of_sample(slot, frame, entry), interval);
	struct live_site_counters *counters = memory_counters(id);
	struct live_samples *samples = id != 0 ? samples_of_counters(counters) : NULL;
	uint64_t exact_weight = sample_weight(size, interval);

	clock_tick(slot);
	const struct block sample = { id, mode_round_weight(exact_weight), clock_ms(), size };

	if (samples == NULL || !put_sample(slot, block, &sample)) {
		health_add(HEALTH_lost_samples);
		return NULL;
	}
	account_alloc(slot, counters, size, fragmentation, sample.weight);
	/* Readers add the countdown to the slot's calls and bytes, for exact totals. mode_decide() has counted this call in the countdown,
	 * and account_alloc() its weight in the slot: the weight is subtracted here. */
	countdown_add(slot, -(uint64_t)sample.weight, -(uint64_t)sample.weight * size);
	sample_add_allocation(samples, size, exact_weight);
	slot->last_block = block;
	slot->last_weight = sample.weight;
	slot->last_calls = countdown_now()->calls;
	probes_alloc(block, size, sample.weight);
	return counters;
}

/* Records a block whose stack was not requested. */
static struct live_site_counters *record_without_stack(struct slot *slot, void *block,
						       uint64_t size, uint64_t fragmentation,
						       const uintptr_t *frame,
						       enum live_entry entry)
{
	uint32_t id = tagged(slot, sites_counters_without_stack(slot, origin_heap(entry)),
			     tag_here(slot, frame));
	struct live_site_counters *counters = memory_counters(id);

	record_put(slot, block, size, id);
	account_alloc(slot, counters, size, fragmentation, 1);
	slot->last_block = block;
	return counters;
}

NOINLINE struct live_site_counters *record_by_mode(struct slot *slot, void *block, uint64_t size,
						   uint64_t fragmentation, const uintptr_t *frame,
						   enum live_entry entry)
{
	bool timed = thread_state.interval == MODE_INTERVAL_TIMED;
	uint64_t interval = mode_decide(size, slot);
	struct live_site_counters *counters;

	if (interval == MODE_SKIP)
		return NULL;
	if (interval > MODE_WITHOUT_STACK) {
		uint64_t began = cpu_limit_now();

		counters = record_sample(slot, block, size, fragmentation, interval, frame, entry);
		cpu_limit_took_since(began);
		return counters;
	}
	counters = interval == MODE_EXACTLY
			   ? record_block(slot, block, size, fragmentation, frame, entry)
			   : record_without_stack(slot, block, size, fragmentation, frame, entry);
	if (UNLIKELY(timed))
		timed_calls_allocated(slot, counters);
	return counters;
}
