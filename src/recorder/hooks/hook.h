/* SPDX-License-Identifier: Apache-2.0 */
/* Entering and leaving a hook.
 *
 * If hook_enter returns no slot, the hook only forwards: the recorder is off or not started yet, or this thread is already inside a
 * hook (an allocator that calls itself, a signal handler). */
#ifndef RECORDER_HOOKS_HOOK_H
#define RECORDER_HOOKS_HOOK_H

#include "recorder/arch/arch.h"
#include "recorder/checks/check.h"
#include "recorder/hooks/next.h"
#include "recorder/slot.h"

#define EXPORT __attribute__((visibility("default")))

/* Points to a word that is zeroed on fork; it equals thread_state.token in every registered thread of this process. */
extern HIDDEN const volatile uint64_t *fork_token;
extern HIDDEN const uint64_t fork_no_token; /* matches no thread's token */

/* True in a forked child that has not called a hook yet: it has no profile. False: what was reset for the child is visible. */
static inline bool hook_in_new_child(void)
{
	return __atomic_load_n(fork_token, __ATOMIC_ACQUIRE) == 0;
}

enum {
	GUARD_FORWARDING = 1, /* inside the forwarded call */
	GUARD_NESTS = 2,      /* inside operator new: its inner malloc is not the program's call */
	GUARD_BITS = 3,
};

struct slot *hook_enter_slow(const uintptr_t *frame);
struct slot *hook_enter_free_slow(const uintptr_t *frame);

static ALWAYS_INLINE void hook_guard(uintptr_t guard)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&thread_state.guard, guard, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static ALWAYS_INLINE struct slot *hook_enter_or(const uintptr_t *frame,
						struct slot *(*otherwise)(const uintptr_t *))
{
	struct thread_state *self = &thread_state;

	__asm__("" : "+r"(self)); /* compute the TLS address only once */
	if (UNLIKELY(self->guard != 0))
		return otherwise(frame);
	/* Set the guard before checking the token. A child that a signal handler forks before this point notices it below; one
	 * forked after it gets a copy of the profile (hooks_fork.c). */
	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	if (UNLIKELY(self->token != *fork_token)) {
		hook_guard(0);
		return otherwise(frame);
	}
	struct slot *slot = self->slot;

	if (slot == NULL) /* a thread with the token has a slot: callers need not check */
		__builtin_unreachable();

	RECORDER_CHECK(slot->owner == self);
	return slot;
}

static ALWAYS_INLINE struct slot *hook_enter(const uintptr_t *frame)
{
	return hook_enter_or(frame, hook_enter_slow);
}

/* For hooks that free a block: a free inside operator new is recorded, unlike the operator's first allocation. */
static ALWAYS_INLINE struct slot *hook_enter_free(const uintptr_t *frame)
{
	return hook_enter_or(frame, hook_enter_free_slow);
}

/* Marks the end of the forwarded call. */
static ALWAYS_INLINE void hook_record(const uintptr_t *frame)
{
	hook_guard((uintptr_t)frame);
}

static ALWAYS_INLINE void hook_leave(void)
{
	if (CHECKED)
		check_leaving();
	hook_guard(0);
}

/* True if a hook that got no slot is the inner allocation of a pending operator new. */
static inline bool hook_has_pending_new(void)
{
	return thread_state.guard & GUARD_NESTS;
}
#endif
