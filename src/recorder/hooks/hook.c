/* SPDX-License-Identifier: Apache-2.0 */
/* Entering a hook when it is not the ordinary case: the first call of the process or of a thread, the first call after
 * a fork, a call inside a hook; and the rare parts of recording.
 *
 * Owns: the recorder's state. Invariant: a slot is handed out only while thread_state.guard names the hook that has
 * it. */
#include "recorder/hooks/hook.h"

#include "recorder/hooks/allocator.h"
#include "recorder/clock.h"
#include "recorder/lock.h"
#include "recorder/counters/maps.h"
#include "recorder/counters/marks.h"
#include "recorder/hooks/operators.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/api/pools.h"
#include "recorder/unwind/rules.h"
#include "recorder/sampling/sampled_blocks.h"
#include "recorder/process/startup.h"
#include "recorder/api/stats.h"
#include "recorder/sys.h"
#include "recorder/api/tags.h"

#ifdef __SANITIZE_THREAD__
char order_page[1 << 16];
#endif
enum { NEW, STARTING, RUNNING, OFF };
static int state;
static uint64_t early_calls; /* before the profile existed */

enum { PATIENCE = 1 << 12 }; /* calls of a thread between two attempts to get a slot */

/* One caller brings the recorder up; others meanwhile forward. */
static void bring_up(int from, bool forked)
{
	if (!__atomic_compare_exchange_n(&state, &from, STARTING, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	bool started = start_recording(forked);

	if (started) {
		memory.head->health[HEALTH_early_calls] += forked ? 0 : early_calls;
	} else {
		start_failed();
	}
	__atomic_store_n(&state, started ? RUNNING : OFF, __ATOMIC_RELEASE);
}

/* Gives back the locks that a slot holds, whose hook was left without its end. */
static void give_back_locks(struct slot *slot)
{
	lock_recover(&rules_lock, slot->id);
	sampled_blocks_recover(slot);
	sites_recover(slot);
	tags_recover(slot);
	marks_recover(slot);
	stats_recover(slot);
	pools_recover(slot);
	account_recover(slot);
	maps_recover(slot);
}

/* A thread without a slot of this process. */
static struct slot *register_thread(void)
{
	int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);

	next_found();
	if (now == NEW)
		bring_up(NEW, false);
	else if (now == RUNNING && *fork_token == 0)
		bring_up(RUNNING, true); /* a fork's child */
	now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
	if (now != RUNNING) {
		if (now == OFF)
			countdown_own(INT64_MAX); /* from now on hooks jump to where they forward */
		else
			__atomic_add_fetch(&early_calls, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	if (!sys_may(SYS_THREADS) ||
	    thread_state.patience > 0) { /* no slot was to be had a moment ago, or ever again */
		thread_state.patience -= thread_state.patience > 0;
		health_add(HEALTH_unregistered_calls);
		return NULL;
	}
	/* A vfork's child, or another process that shares our memory, is not a thread of ours: its number may become
	 * that of one. And its thread-local block is its parent's. */
	bool ours = (uint32_t)sys_getpid() == memory.head->pid;
	struct slot *slot = ours ? slot_acquire() : NULL;

	if (slot == NULL) {
		health_add(HEALTH_unregistered_calls);
		thread_state.patience = ours ? PATIENCE : 0;
		return NULL;
	}
	give_back_locks(
		slot); /* of a thread that ended inside a hook, and left its slot to this one */
	thread_state.slot = slot;
	thread_state.token = *fork_token;
	countdown_none(); /* a parent's led to the word of a slot that another thread may get here */
	thread_state.taken = thread_state.deleted = NULL;
	return slot;
}

/* A hook was left without its end: longjmp out of a signal handler, or an exception from the forwarded call, which then
 * gave no block. */
static void recover(struct slot *slot, bool forwarding)
{
	if (!forwarding)
		health_add(HEALTH_abandoned_hooks);
	give_back_locks(slot);
	slot->walk->stamp = 0;
	stack_cache_forget(slot);
	slot->last_block = NULL;
}

/* Whether the guard is that of a hook which is still running; `frame` is the hook that asks. */
static bool inside_hook(const uintptr_t *frame)
{
	uintptr_t guard = thread_state.guard & ~(uintptr_t)GUARD_BITS;
	bool forwarding = thread_state.guard & GUARD_FORWARDING;
	struct slot *slot = thread_state.slot;

	if (thread_state.token != *fork_token || slot == NULL)
		return true; /* starting up, or a fork inside a hook: cannot tell more */
	const struct lock *held = CHECKED ? check_lock_set_aside() : NULL;
	bool running = walk_is_running(slot, (uintptr_t)frame, guard);

	if (CHECKED)
		check_lock_put_back(held);
	if (running) {
		if (!forwarding || allocator_is_libc) /* others may call themselves */
			health_add(HEALTH_reentrant_calls);
		return true;
	}
	recover(slot, forwarding);
	return false;
}

NOINLINE struct slot *hook_enter_slow(const uintptr_t *frame)
{
	struct slot *slot = thread_state.slot;

	if (UNLIKELY(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == OFF)) {
		countdown_own(INT64_MAX);
		return NULL;
	}
	if (thread_state.guard & GUARD_NESTS) {
		if (thread_state.taken == NULL && operators_call(frame[1]))
			return NULL;
		/* Not what the operator returns: its books, an exception on its way, a new handler, a signal handler, or
		 * the operator was left long ago. Its hook ends here; what it may still call is recorded on its own. */
		hook_leave();
	}
	if (thread_state.guard != 0 && inside_hook(frame))
		return NULL;
	CHAOS_DELAY();
	if (thread_state.token != *fork_token) {
		hook_guard((uintptr_t)frame);
		slot = register_thread();
		if (slot == NULL) {
			hook_leave();
			return NULL;
		}
	}
	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	return slot;
}

NOINLINE struct slot *hook_enter_free_slow(const uintptr_t *frame)
{
	if (thread_state.guard & GUARD_NESTS)
		hook_leave();
	return hook_enter_slow(frame);
}

/* What the loader does is never remembered, so that all its calls are seen here. */
static uint32_t walked(struct slot *slot, const uintptr_t *frame)
{
	bool by_loader = modules_is_loader(frame[1]);

	clock_tick(slot);
	if (by_loader)
		modules_loader_allocates(slot);
	uint32_t id = sites_record(slot, walk_stack(slot, frame), LIVE_KIND_HEAP);

	if (CHECKED)
		check_walk(slot->walk);
	if (!by_loader && id != slot->record_of_other[LIVE_KIND_HEAP])
		stack_cache_add(slot, frame, id);
	return id;
}

/* The record of the stack alone -> that of the stack and the thread's tag. */
static uint32_t tagged(struct slot *slot, uint32_t id, const uintptr_t *frame)
{
	if (thread_state.tag != 0 && UNLIKELY(tags_is_stale(slot->scope, (uintptr_t)frame)))
		tags_settle(slot, (uintptr_t)frame);
	return thread_state.tag != 0 ? sites_record_of_tag(slot, id, thread_state.tag) : id;
}

NOINLINE uint32_t record_of_walk(struct slot *slot, const uintptr_t *frame)
{
	if (LIKELY(slot->quick != NULL))
		return walked(slot, frame);
	uint32_t id = stack_cache_find(slot, slot->stack_cache, frame);

	return tagged(slot, id != 0 ? id : walked(slot, frame), frame);
}

NOINLINE uint32_t record_of_map(struct slot *slot, const uintptr_t *frame)
{
	uint64_t verdict = mode_decide_map();

	if (verdict == MODE_SKIP)
		return 0;
	uint32_t id = verdict == MODE_WITHOUT_STACK
			      ? sites_record_unasked(slot, LIVE_KIND_MMAP)
			      : sites_record(slot, walk_stack(slot, frame), LIVE_KIND_MMAP);

	return tagged(slot, id, frame);
}

NOINLINE uint32_t record_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name,
				 bool stack)
{
	clock_tick(slot);
	uint32_t id = stack ? sites_record(slot, walk_stack(slot, frame), LIVE_KIND_POOL)
			    : sites_record_unasked(slot, LIVE_KIND_POOL);

	if (thread_state.tag != 0 && UNLIKELY(tags_is_stale(slot->scope, (uintptr_t)frame)))
		tags_settle(slot, (uintptr_t)frame);
	uint32_t tag = tags_below(slot, thread_state.tag, name);

	if (UNLIKELY(tag == 0))
		health_add(HEALTH_lost_tags);
	return sites_record_of_tag(slot, id, tag != 0 ? tag : name);
}

NOINLINE void record_put(struct slot *slot, void *block, uint64_t size, uint32_t record)
{
	clock_tick(slot);
	struct block entry = { .record = record, .birth_ms = clock_ms(), .size_bytes = size }, old;

	blocks_put(&slot->near, (uintptr_t)block, &entry, &old);
	if (LIKELY(old.record == 0))
		return;
	health_add(HEALTH_repaired_blocks);
	record_end(slot, block, &old, 0, false);
}

COLD void record_unknown_free(const void *block)
{
	if (block == thread_state.deleted)
		return;
	if (block == thread_state.taken) { /* the operator's, and nobody has recorded it */
		thread_state.taken = NULL;
		return;
	}
	if (__atomic_load_n(&mode_was_changed, __ATOMIC_RELAXED))
		return; /* there are blocks that were never recorded */
	if (start_was_forked)
		__atomic_add_fetch(&memory.head->inherited_frees, 1, __ATOMIC_RELAXED);
	else
		health_add(HEALTH_unknown_frees);
}

NOINLINE bool record_free_sample(struct slot *slot, void *block)
{
	uint64_t began = cpu_limit_now();

	if (!sampled_blocks_may_have(block))
		return false;
	struct block entry = sampled_blocks_take((uintptr_t)block);

	if (entry.record != 0)
		record_ended(slot, block, &entry, slack_of(block, entry.size_bytes),
			     slot->last_block == block);
	cpu_limit_took_since(began);
	return entry.record != 0;
}

NOINLINE void record_free_of_unknown(struct slot *slot, void *block)
{
	struct block entry = thread_state.deleted_entry;

	if (record_free_sample(slot, block))
		return;
	if (block != thread_state.deleted || entry.record == 0) {
		record_unknown_free(block);
		return;
	}
	thread_state.deleted_entry.record = 0;
	record_ended(slot, block, &entry, slack_of(block, entry.size_bytes),
		     slot->last_block == block);
}

NOINLINE struct live_record *record_remote(struct slot *slot, const struct live_record *owner,
					   uint64_t size, uint64_t times)
{
	clock_tick(slot);
	slot_freed_for(slot, owner, times, size * times);
	return memory_record(sites_record_of_site(slot, owner->site));
}

/* Enters a sample, and ends one whose free was not seen. */
static bool put_sample(struct slot *slot, void *block, const struct block *entry)
{
	struct block old;

	if (!sampled_blocks_put(slot, (uintptr_t)block, entry, &old))
		return false;
	sample_remember(block);
	if (UNLIKELY(old.record != 0)) {
		health_add(HEALTH_repaired_blocks);
		record_end(slot, block, &old, 0, false);
	}
	return true;
}

/* A block that stands for several. */
static struct live_record *record_sample(struct slot *slot, void *block, uint64_t size,
					 uint64_t slack, uint64_t interval, const uintptr_t *frame)
{
	uint32_t id = sites_record_of_interval(slot, record_of_stack(slot, frame), interval);
	struct live_record *record = memory_record(id);
	struct live_samples *samples = id != 0 ? sample_errors(record) : NULL;
	uint64_t weight = sample_weight(size, interval);

	clock_tick(slot);
	const struct block entry = { id, mode_round_weight(weight), clock_ms(), size };

	if (samples == NULL || !put_sample(slot, block, &entry)) {
		health_add(HEALTH_lost_samples);
		return NULL;
	}
	account_alloc(slot, record, size, slack, entry.times);
	countdown_add(slot, -(uint64_t)entry.times, -(uint64_t)entry.times * size);
	sample_took(samples, size, weight);
	slot->last_block = block;
	slot->last_times = entry.times;
	slot->last_calls = countdown_now()->calls;
	return record;
}

NOINLINE bool record_take_sample(const void *block, struct block *ret)
{
	if (!sampled_blocks_may_have(block))
		return false;
	*ret = sampled_blocks_take((uintptr_t)block);
	return ret->record != 0;
}

NOINLINE void record_put_sample_back(struct slot *slot, void *block, const struct block *entry,
				     uint64_t slack)
{
	struct block none;

	if (sampled_blocks_put(slot, (uintptr_t)block, entry, &none))
		return;
	health_add(HEALTH_lost_samples); /* its end would not be found: it ends here */
	record_end(slot, block, entry, slack, false);
}

/* A block whose stack nobody wants. */
static struct live_record *record_unasked(struct slot *slot, void *block, uint64_t size,
					  uint64_t slack, const uintptr_t *frame)
{
	uint32_t id = tagged(slot, sites_record_unasked(slot, LIVE_KIND_HEAP), frame);
	struct live_record *record = memory_record(id);

	record_put(slot, block, size, id);
	account_alloc(slot, record, size, slack, 1);
	slot->last_block = block;
	return record;
}

NOINLINE struct live_record *record_by_mode(struct slot *slot, void *block, uint64_t size,
					    uint64_t slack, const uintptr_t *frame)
{
	uint64_t interval = mode_decide(size);

	if (interval == MODE_SKIP) {
		if (mode_is_sampling())
			countdown_add(slot, 1, size);
		return NULL;
	}
	if (interval == MODE_EXACTLY)
		return record_block(slot, block, size, slack, frame);
	if (interval == MODE_WITHOUT_STACK)
		return record_unasked(slot, block, size, slack, frame);
	uint64_t began = cpu_limit_now();

	countdown_add(slot, 1, size);
	struct live_record *record = record_sample(slot, block, size, slack, interval, frame);

	cpu_limit_took_since(began);
	return record;
}

/* Freed before the next allocation: that would have been counted. */
NOINLINE void record_sample_end(struct slot *slot, const void *address, const struct block *block,
				uint64_t slack, bool temporary)
{
	struct live_record *record = memory_record(block->record);
	uint64_t weight = record_weight(record, block->size_bytes), times = block->times;
	bool foreign = record->thread != slot->thread;

	sample_forget(address);
	if (foreign)
		record = record_remote(slot, record, block->size_bytes, times);
	account_free(slot, record, block->size_bytes, slack, block->birth_ms,
		     temporary && !foreign && countdown_now()->calls == slot->last_calls, times);
	struct live_samples *samples = sample_errors(record);

	if (samples != NULL)
		sample_gave(samples, block->size_bytes, weight);
}

/* Up before main even if nothing allocates: so that the collector learns of this process. */
__attribute__((constructor)) static void start_early(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) != NULL)
		hook_leave();
}
