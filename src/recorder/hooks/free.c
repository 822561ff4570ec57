/* SPDX-License-Identifier: Apache-2.0 */
/* Slow paths of a free: a block that is not in the map, a remote free, a sample. Owns nothing. Runs inside a hook. */
#include "recorder/hooks/free.h"

#include "recorder/clock.h"
#include "recorder/counters/sites.h"
#include "recorder/process/startup.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/sampling/probes.h"
#include "recorder/sampling/sampled_blocks.h"

bool free_notes_wanted;
static bool stacks_wanted;

void free_notes_start(bool stacks, bool sites)
{
	stacks_wanted = stacks;
	free_notes_wanted = stacks || sites;
}

/* The counters are those of a site that has the freeing stack, and in place of a tag the site that allocated. What it counts
 * holds no memory: each block is allocated and freed there at once. */
static void record_free_stack(struct slot *slot, const struct block *block,
			      const struct live_site_counters *owner)
{
	const uintptr_t *frame = (const uintptr_t *)(thread_state.guard & ~(uintptr_t)GUARD_BITS);
	uint64_t weight = owner->samples != 0 ? block->weight : 1;

	clock_tick(slot);
	uint32_t id = sites_counters_of_tag(slot, counters_of_freeing(slot, frame), owner->site);
	struct live_site_counters *counters = memory_counters(id);

	arch_add(&counters->calls, weight);
	arch_add(&counters->bytes, block->size_bytes * weight);
	ARCH_ORDER_STORES(); /* readers that load the frees first find the allocation */
	arch_add(&counters->frees, weight);
	arch_add(&counters->freed_bytes, block->size_bytes * weight);
}

NOINLINE void record_free_notes(struct slot *slot, const void *address, const struct block *block)
{
	const struct live_site_counters *owner = memory_counters(block->counters);

	slot->timed.freed = address;
	slot->timed.freed_site = owner->site;
	if (stacks_wanted)
		record_free_stack(slot, block, owner);
}

COLD void record_unknown_free(const void *block)
{
	if (block == thread_state.deleted)
		return;
	if (block == thread_state.taken) { /* allocated inside operator new and not recorded yet */
		thread_state.taken = NULL;
		return;
	}
	if (block == thread_state.of_libc) {
		thread_state.of_libc = NULL;
		return;
	}
	if (mode_misses_blocks())
		return; /* some blocks were never recorded */
	if (start_was_forked)
		__atomic_add_fetch(&memory.head->inherited_frees, 1, __ATOMIC_RELAXED);
	else
		health_add(HEALTH_unknown_frees);
}

/* Takes a sample out of the index; counters 0: not a sample. */
static ALWAYS_INLINE struct block take_sample(const void *block)
{
	struct block entry = sampled_blocks_take((uintptr_t)block);

	if (entry.counters != 0)
		probes_free(block);
	return entry;
}

NOINLINE bool record_free_sample(struct slot *slot, void *block)
{
	uint64_t began = cpu_limit_now();

	if (!sampled_blocks_may_have(block))
		return false;
	struct block entry = take_sample(block);

	if (entry.counters != 0)
		record_ended(slot, block, &entry, fragmentation_of(block, entry.size_bytes),
			     slot->last_block == block);
	cpu_limit_took_since(began);
	return entry.counters != 0;
}

NOINLINE void record_free_of_unknown(struct slot *slot, void *block)
{
	struct block entry = thread_state.deleted_entry;

	if (record_free_sample(slot, block))
		return;
	if (UNLIKELY(stack_any_coroutine))
		stack_range_unmapped((uintptr_t)block, fragmentation_of(block, 0));
	if (block != thread_state.deleted || entry.counters == 0) {
		record_unknown_free(block);
		return;
	}
	thread_state.deleted_entry.counters = 0;
	record_ended(slot, block, &entry, fragmentation_of(block, entry.size_bytes),
		     slot->last_block == block);
}

NOINLINE struct live_site_counters *counters_of_remote(struct slot *slot,
						       const struct live_site_counters *owner,
						       uint64_t size, uint64_t weight)
{
	clock_tick(slot);
	slot_freed_for(slot, owner, weight, size * weight);
	return memory_counters(sites_counters_of_site(slot, owner->site));
}

NOINLINE bool record_take_sample(const void *block, struct block *ret)
{
	if (!sampled_blocks_may_have(block))
		return false;
	*ret = take_sample(block);
	return ret->counters != 0;
}

NOINLINE void record_put_sample_back(struct slot *slot, void *block, const struct block *entry,
				     uint64_t fragmentation)
{
	struct block none;

	if (sampled_blocks_put(slot, (uintptr_t)block, entry, &none))
		return;
	health_add(HEALTH_lost_samples); /* its free would not be found: end it now */
	record_missed_end(slot, block, entry, fragmentation, false);
}

/* Temporary: freed before the next allocation, which the countdown would have counted. */
NOINLINE void record_sample_end(struct slot *slot, const void *address, const struct block *block,
				uint64_t fragmentation, bool temporary)
{
	struct live_site_counters *counters = memory_counters(block->counters);
	uint64_t exact_weight = exact_weight_of(counters, block->size_bytes),
		 weight = block->weight;
	bool remote = counters->thread != slot->thread;

	sample_forget(address);
	if (remote)
		counters = counters_of_remote(slot, counters, block->size_bytes, weight);
	account_free(slot, counters, block->size_bytes, fragmentation, block->birth_ms,
		     temporary && !remote && countdown_now()->calls == slot->last_calls, weight);
	struct live_samples *samples = samples_of_counters(counters);

	if (samples != NULL)
		sample_add_free(samples, block->size_bytes, exact_weight);
}
