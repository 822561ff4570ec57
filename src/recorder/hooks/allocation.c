/* SPDX-License-Identifier: Apache-2.0 */
/* The rare parts of an allocation: a stack that has to be walked, a block that the map's short way does not take, every mode but the
 * exact one. Owns nothing. Inside a hook. */
#include "recorder/hooks/allocation.h"

#include "recorder/api/tags.h"
#include "recorder/clock.h"
#include "recorder/counters/sites.h"
#include "recorder/hooks/free.h"
#include "recorder/python/interpreter.h"
#include "recorder/python/stack.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/sampling/sampled_blocks.h"
#include "recorder/unwind/walk.h"

/* Walks the stack of an allocation, and remembers it; what the loader does never, so that all its calls are seen here. Returns its
 * hash. counters: of its site, made if need be; NULL: an interpreter may have frames on it. */
static uint64_t walked(struct slot *slot, const uintptr_t *frame, uint32_t *counters)
{
	bool by_loader = modules_is_loader(frame[1]);
	uint32_t id = 0;

	clock_tick(slot);
	if (by_loader)
		modules_loader_allocates(slot);
	uint64_t hash = walk_stack(slot, frame);

	if (counters != NULL)
		id = *counters = sites_counters(slot, hash, LIVE_KIND_HEAP);
	if (CHECKED)
		check_walk(slot->walk);
	if (!by_loader && (counters == NULL || id != slot->counters_of_other[LIVE_KIND_HEAP]))
		stack_cache_add(slot, frame, id);
	return hash;
}

/* The counters of the stack alone -> those of the stack and the thread's tag. */
static uint32_t tagged(struct slot *slot, uint32_t id, const uintptr_t *frame)
{
	if (thread_state.tag != 0 && UNLIKELY(tags_is_stale(slot->scope, (uintptr_t)frame)))
		tags_settle(slot, (uintptr_t)frame);
	return thread_state.tag != 0 ? sites_counters_of_tag(slot, id, thread_state.tag) : id;
}

/* Whether the last walk was made by the full interpreter, as over every signal handler; such a one is never remembered. */
static bool is_odd(const struct slot *slot)
{
	return slot->walk->stamp == 0;
}

/* The counters of a stack that an interpreter may have frames on. */
static ALWAYS_INLINE uint32_t interpreted(struct slot *slot, const uintptr_t *frame,
					  enum live_kind kind)
{
	const struct stack_cache_entry *entry = stack_cache_find(slot, slot->stack_cache, frame);
	uint64_t native = LIKELY(entry != NULL) ? entry->hash : walked(slot, frame, NULL);

	return python_counters(slot, native, kind, entry == NULL && is_odd(slot), frame);
}

static uint32_t not_interpreted(struct slot *slot, const uintptr_t *frame)
{
	const struct stack_cache_entry *entry = stack_cache_find(slot, slot->stack_cache, frame);
	uint32_t id;

	if (entry != NULL)
		return entry->counters;
	walked(slot, frame, &id);
	return id;
}

NOINLINE uint32_t counters_of_walk(struct slot *slot, const uintptr_t *frame)
{
	uint32_t id;

	if (UNLIKELY(python_is_here())) {
		slot->quick = slot->quick_untagged = NULL; /* if it has come since */
		return tagged(slot, interpreted(slot, frame, LIVE_KIND_HEAP), frame);
	}
	if (UNLIKELY(slot->quick == NULL))
		return tagged(slot, not_interpreted(slot, frame), frame);
	walked(slot, frame, &id);
	return id;
}

static NOINLINE uint32_t interpreted_of_kind(struct slot *slot, const uintptr_t *frame,
					     enum live_kind kind)
{
	return interpreted(slot, frame, kind);
}

/* The counters of a mapping, or of a block from a pool: walked at each. Python's own pools are as busy as malloc. */
static uint32_t counters_of_kind(struct slot *slot, const uintptr_t *frame, enum live_kind kind)
{
	return UNLIKELY(python_is_here()) ? interpreted_of_kind(slot, frame, kind)
					  : sites_counters(slot, walk_stack(slot, frame), kind);
}

NOINLINE uint32_t counters_of_map(struct slot *slot, const uintptr_t *frame)
{
	uint64_t verdict = mode_decide_map();

	if (verdict == MODE_SKIP)
		return 0;
	uint32_t id = verdict == MODE_WITHOUT_STACK
			      ? sites_counters_without_stack(slot, LIVE_KIND_MMAP)
			      : counters_of_kind(slot, frame, LIVE_KIND_MMAP);

	return tagged(slot, id, frame);
}

NOINLINE uint32_t counters_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name,
				   bool stack)
{
	clock_tick(slot);
	uint32_t id = stack ? counters_of_kind(slot, frame, LIVE_KIND_POOL)
			    : sites_counters_without_stack(slot, LIVE_KIND_POOL);

	if (thread_state.tag != 0 && UNLIKELY(tags_is_stale(slot->scope, (uintptr_t)frame)))
		tags_settle(slot, (uintptr_t)frame);
	uint32_t tag = tags_below(slot, thread_state.tag, name);

	if (UNLIKELY(tag == 0))
		health_add(HEALTH_lost_tags);
	return sites_counters_of_tag(slot, id, tag != 0 ? tag : name);
}

NOINLINE void record_put(struct slot *slot, void *block, uint64_t size, uint32_t counters)
{
	clock_tick(slot);
	struct block entry = { .counters = counters, .birth_ms = clock_ms(), .size_bytes = size },
		     old;

	blocks_put(&slot->near, (uintptr_t)block, &entry, &old);
	if (LIKELY(old.counters == 0))
		return;
	health_add(HEALTH_repaired_blocks);
	record_end(slot, block, &old, 0, false);
}

/* Enters a sample, and ends one whose free was not seen. */
static bool put_sample(struct slot *slot, void *block, const struct block *entry)
{
	struct block old;

	if (!sampled_blocks_put(slot, (uintptr_t)block, entry, &old))
		return false;
	sample_remember(block);
	if (UNLIKELY(old.counters != 0)) {
		health_add(HEALTH_repaired_blocks);
		record_end(slot, block, &old, 0, false);
	}
	return true;
}

/* A block that stands for several. */
static struct live_site_counters *record_sample(struct slot *slot, void *block, uint64_t size,
						uint64_t slack, uint64_t interval,
						const uintptr_t *frame)
{
	uint32_t id = sites_counters_of_interval(slot, counters_of_stack(slot, frame), interval);
	struct live_site_counters *counters = memory_counters(id);
	struct live_samples *samples = id != 0 ? samples_of_counters(counters) : NULL;
	uint64_t exact_weight = sample_weight(size, interval);

	clock_tick(slot);
	const struct block entry = { id, mode_round_weight(exact_weight), clock_ms(), size };

	if (samples == NULL || !put_sample(slot, block, &entry)) {
		health_add(HEALTH_lost_samples);
		return NULL;
	}
	account_alloc(slot, counters, size, slack, entry.weight);
	countdown_add(slot, -(uint64_t)entry.weight, -(uint64_t)entry.weight * size);
	sample_add_allocation(samples, size, exact_weight);
	slot->last_block = block;
	slot->last_weight = entry.weight;
	slot->last_calls = countdown_now()->calls;
	return counters;
}

/* A block whose stack nobody wants. */
static struct live_site_counters *record_without_stack(struct slot *slot, void *block,
						       uint64_t size, uint64_t slack,
						       const uintptr_t *frame)
{
	uint32_t id = tagged(slot, sites_counters_without_stack(slot, LIVE_KIND_HEAP), frame);
	struct live_site_counters *counters = memory_counters(id);

	record_put(slot, block, size, id);
	account_alloc(slot, counters, size, slack, 1);
	slot->last_block = block;
	return counters;
}

NOINLINE struct live_site_counters *record_by_mode(struct slot *slot, void *block, uint64_t size,
						   uint64_t slack, const uintptr_t *frame)
{
	uint64_t interval = mode_decide(size, slot);

	if (interval == MODE_SKIP)
		return NULL;
	if (interval == MODE_EXACTLY)
		return record_block(slot, block, size, slack, frame);
	if (interval == MODE_WITHOUT_STACK)
		return record_without_stack(slot, block, size, slack, frame);
	uint64_t began = cpu_limit_now();
	struct live_site_counters *counters =
		record_sample(slot, block, size, slack, interval, frame);

	cpu_limit_took_since(began);
	return counters;
}
