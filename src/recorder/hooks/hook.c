/* SPDX-License-Identifier: Apache-2.0 */
/* Entering a hook when it is not the ordinary case: the first call of the process or of a thread, the first call after
 * a fork, a call inside a hook.
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
#include "recorder/counters/account.h"
#include "recorder/counters/sites.h"
#include "recorder/sampling/countdown.h"
#include "recorder/unwind/modules.h"
#include "recorder/unwind/stack_cache.h"
#include "recorder/unwind/walk.h"

#ifdef __SANITIZE_THREAD__
char order_page[1 << 16];
#endif
enum { NEW, STARTING, RUNNING, OFF };
static PROCESS_STATE int state;
static uint64_t early_calls; /* before the profile existed */

enum { CALLS_UNTIL_RETRY = 1 << 12 }; /* calls of a thread between two attempts to get a slot */

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
	    thread_state.calls_until_retry >
		    0) { /* there was no slot a moment ago, or there will be none */
		thread_state.calls_until_retry -= thread_state.calls_until_retry > 0;
		health_add(HEALTH_unregistered_calls);
		return NULL;
	}
	/* A vfork's child, or another process that shares our memory, is not a thread of ours: its number may become
	 * that of one. And its thread-local block is its parent's. */
	bool ours = (uint32_t)sys_getpid() == memory.head->pid;
	struct slot *slot = ours ? slot_acquire() : NULL;

	if (slot == NULL) {
		health_add(HEALTH_unregistered_calls);
		thread_state.calls_until_retry = ours ? CALLS_UNTIL_RETRY : 0;
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

/* Whether the guard is that of a hook which is still running; `frame` is the calling hook. */
static bool inside_hook(const uintptr_t *frame)
{
	uintptr_t guard = thread_state.guard & ~(uintptr_t)GUARD_BITS;
	bool forwarding = thread_state.guard & GUARD_FORWARDING;
	struct slot *slot = thread_state.slot;

	if (thread_state.token != *fork_token || slot == NULL)
		return true; /* starting up, or a fork inside a hook: more is not known */
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
	hook_guard((uintptr_t)frame); /* before the token is looked at, as in hook_enter */
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

/* Up before main even if nothing allocates: so that the collector learns of this process. */
__attribute__((constructor)) static void start_early(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) != NULL)
		hook_leave();
}
