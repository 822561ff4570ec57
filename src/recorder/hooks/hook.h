/* SPDX-License-Identifier: Apache-2.0 */
/* How every hook begins and ends.
 *
 * A hook that gets no slot from hook_enter forwards and records nothing: the recorder is off or not started, or this
 * thread is inside a hook already (an allocator that calls itself, a signal handler). */
#ifndef RECORDER_HOOKS_HOOK_H
#define RECORDER_HOOKS_HOOK_H

#include "recorder/arch/arch.h"
#include "recorder/checks/check.h"
#include "recorder/hooks/next.h"
#include "recorder/slot.h"

#define EXPORT __attribute__((visibility("default")))

/* Points to a word that fork wipes: equal to thread_state.token for a registered thread of this process. */
extern HIDDEN const volatile uint64_t *fork_token;
extern HIDDEN const uint64_t fork_no_token; /* no thread has it */

/* A fork's child that has called no hook yet: it has no profile. */
static inline bool hook_in_new_child(void)
{
	return *fork_token == 0;
}

enum {
	GUARD_FORWARDING = 1, /* inside the forwarded call */
	GUARD_NESTS = 2,      /* of operator new: the malloc inside is not the program's */
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

	__asm__("" : "+r"(self)); /* or the compiler asks for the address again at each use */
	if (UNLIKELY(self->guard != 0))
		return otherwise(frame);
	/* The guard first: a child that a signal handler forks before this finds out that it is one, and after this it has a copy of the
	 * profile (hooks_fork.c). */
	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	if (UNLIKELY(self->token != *fork_token)) {
		hook_guard(0);
		return otherwise(frame);
	}
	struct slot *slot = self->slot;

	if (slot == NULL) /* a thread with the token has one: callers need not check */
		__builtin_unreachable();

	RECORDER_CHECK(slot->owner == self);
	return slot;
}

static ALWAYS_INLINE struct slot *hook_enter(const uintptr_t *frame)
{
	return hook_enter_or(frame, hook_enter_slow);
}

/* For what ends a block: inside operator new too it is recorded, where the first block taken is not. */
static ALWAYS_INLINE struct slot *hook_enter_free(const uintptr_t *frame)
{
	return hook_enter_or(frame, hook_enter_free_slow);
}

/* The forwarded call is over. */
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

/* Whether a hook without a slot is the call by which operator new gets its block. */
static inline bool hook_has_pending_new(void)
{
	return thread_state.guard & GUARD_NESTS;
}
#endif
