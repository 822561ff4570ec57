/* SPDX-License-Identifier: Apache-2.0 */
/* Slow path of entering a hook: the first call of the process or of a thread, the first call after a fork, a call inside
 * a hook.
 *
 * Owns: the recorder's state. Invariant: a slot is handed out only while thread_state.guard holds the frame of the hook
 * that uses it. */
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
#include "recorder/counters/account.h"
#include "recorder/counters/sites.h"
#include "recorder/sampling/countdown.h"
#include "recorder/sampling/mode.h"
#include "recorder/unwind/modules.h"
#include "recorder/unwind/stack_cache.h"
#include "recorder/unwind/walk.h"

#ifdef __SANITIZE_THREAD__
char order_page[1 << 16];
#endif
enum { NEW, STARTING, RUNNING, OFF };
static PROCESS_STATE int state;
static PROCESS_STATE uint64_t
	early_calls; /* made while a thread starts the recorder, and not in the profile yet */

enum { CALLS_UNTIL_RETRY = 1 << 12 }; /* calls of a thread between two attempts to get a slot */

/* Moves the early calls into the profile. The thread that starts the recorder does so after it has set the state, and a thread that
 * finds it started after counting its call does too. The exchange and the addition are ordered: whichever comes second sees what the
 * other did before. */
static void publish_early_calls(void)
{
	uint64_t calls = __atomic_exchange_n(&early_calls, 0, __ATOMIC_ACQ_REL);

	__atomic_fetch_add(&memory.head->health[HEALTH_early_calls], calls, __ATOMIC_RELAXED);
}

static void count_early_call(void)
{
	__atomic_fetch_add(&early_calls, 1, __ATOMIC_ACQ_REL);
	CHAOS_DELAY();
	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == RUNNING)
		publish_early_calls();
}

/* One caller starts the recorder; others only forward until it is done. */
static void bring_up(int from, bool forked)
{
	/* Those that a parent had not published when it forked. No call of this child is counted before the exchange. */
	uint64_t inherited = __atomic_load_n(&early_calls, __ATOMIC_RELAXED);

	CHAOS_DELAY();
	if (!__atomic_compare_exchange_n(&state, &from, STARTING, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	bool started = true;

	/* Since the caller looked at the token, another thread may have started this child. */
	if (!forked || hook_in_new_child()) {
		if (forked)
			__atomic_fetch_sub(&early_calls, inherited, __ATOMIC_RELAXED);
		started = start_recording(forked);
		if (!started)
			start_failed();
	}
	CHAOS_DELAY();
	__atomic_store_n(&state, started ? RUNNING : OFF, __ATOMIC_RELEASE);
	if (started)
		publish_early_calls();
}

/* Releases the locks held by a slot whose hook was abandoned. */
static void release_locks(struct slot *slot)
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

/* Registers a thread that has no slot in this process. */
static struct slot *register_thread(void)
{
	int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);

	next_found();
	if (now == NEW)
		bring_up(NEW, false);
	else if (now == RUNNING && hook_in_new_child())
		bring_up(RUNNING, true); /* forked child */
	now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
	if (now != RUNNING) {
		if (now == OFF)
			countdown_own(INT64_MAX); /* from now on hooks forward by a tail call */
		else
			count_early_call();
		return NULL;
	}
	if (!sys_may(SYS_THREADS) ||
	    thread_state.calls_until_retry >
		    0) { /* no slot was free recently, or none can be registered */
		thread_state.calls_until_retry -= thread_state.calls_until_retry > 0;
		health_add(HEALTH_unregistered_calls);
		return NULL;
	}
	/* A vfork child, or another process that shares our memory, is not one of our threads: its thread id may later
	 * belong to one, and its thread-local block is its parent's. */
	bool ours = (uint32_t)sys_getpid() == memory.head->pid;
	struct slot *slot = ours ? slot_acquire() : NULL;

	if (slot == NULL) {
		health_add(HEALTH_unregistered_calls);
		thread_state.calls_until_retry = ours ? CALLS_UNTIL_RETRY : 0;
		return NULL;
	}
	release_locks(slot); /* of a thread that ended inside a hook and whose slot was reused */
	slot->its_bytes[0] = NULL; /* the last thread's */
	slot->resized = (struct slot_resized){ 0 };
	thread_state.slot = slot;
	thread_state.token = *fork_token;
	mode_reread(); /* after a fork it is the parent's, whose countdown another thread may get in this process */
	thread_state.taken = thread_state.deleted = NULL;
	return slot;
}

/* Recovers after an abandoned hook: longjmp out of a signal handler, or an
 * exception from the forwarded call, which then returned no block. */
static void recover(struct slot *slot, bool forwarding)
{
	if (!forwarding)
		health_add(HEALTH_abandoned_hooks);
	release_locks(slot);
	slot->walk->stamp = 0;
	stack_cache_forget(slot);
	slot->last_block = NULL;
	slot->inner_end = 0;
}

/* True if the hook that set the guard is still running; `frame` is the calling hook. */
static bool inside_hook(const uintptr_t *frame)
{
	uintptr_t guard = thread_state.guard & ~(uintptr_t)GUARD_BITS;
	bool forwarding = thread_state.guard & GUARD_FORWARDING;
	struct slot *slot = thread_state.slot;

	if (thread_state.token != *fork_token || slot == NULL)
		return true; /* starting up, or forked inside a hook: assume it is running */
	const struct lock *held = CHECKED ? check_lock_set_aside() : NULL;
	bool running = walk_is_running(slot, (uintptr_t)frame, guard);

	if (CHECKED)
		check_lock_put_back(held);
	if (running) {
		if (!forwarding || allocator_is_libc) /* other allocators may call themselves */
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
		/* This is not the operator's result: its own bookkeeping, an exception being thrown, a new handler, a
		 * signal handler, or the operator was abandoned long ago. End its hook here; its further calls are
		 * recorded separately. */
		hook_leave();
	}
	if (thread_state.guard != 0 && inside_hook(frame))
		return NULL;
	CHAOS_DELAY();
	hook_guard((uintptr_t)frame); /* before checking the token, as in hook_enter */
	if (thread_state.token != *fork_token) {
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

/* Starts the recorder before main even if nothing allocates, so that the collector learns about this process. */
__attribute__((constructor)) static void start_early(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) != NULL)
		hook_leave();
}
