/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of the recorder. A lock is held for a few hundred instructions, but for longer while one of these tables moves: mappings, rules,
 * tags, Python codes and samples; while all rules are removed; and while hg_sites adds up its counters. It is never held across a system
 * call or a call of the allocator, and no thread holds two: there is no lock order.
 *
 * The owner may still be preempted. A waiter spins briefly and then sleeps in the kernel, if the program's seccomp filter
 * allows it, at most LOCK_WAITS times LOCK_WAIT_NS. Then it gives up and counts that: the target must not hang because of
 * us, even if the owner has vanished (asynchronous cancellation). Until that owner releases the lock, others sleep once, and
 * after LOCK_GIVE_UPS of them not at all. The caller decides what to do on failure; frees are deferred (deferred_frees.h).
 *
 * A lock stores its owner, so that the locks of a hook abandoned by longjmp or an exception can be released. */
#ifndef RECORDER_LOCK_H
#define RECORDER_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "recorder/checks/chaos.h"
#include "recorder/checks/check.h"

enum {
	LOCK_SPINS = 100,
	LOCK_WAITS =
		25, /* 100 ms in all, even if each wait was cut short because the lock was free for a moment */
	LOCK_WAIT_NS = 4 * 1000 * 1000,
	LOCK_GIVE_UPS = 256,
};

struct lock {
	uint32_t
		word; /* 0 = free; else the owner's slot + 1 and flags. Acquire on lock, release on unlock */
};

#define LOCK_WAITED (UINT32_C(1) << 31) /* a waiter may be asleep and must be woken */
#define LOCK_GIVEN_UP                                                                              \
	(UINT32_C(1) << 20) /* unit of the count of give-ups on this owner, at most LOCK_GIVE_UPS */
#define LOCK_OWNER (LOCK_GIVEN_UP - 1)

/* Checks that a thread holds one lock at a time and makes no system call while it does. Tests may override it. */
#ifndef LOCK_CHECK
#define LOCK_CHECK(lock, taken)                                                                    \
	do {                                                                                       \
		if (CHECKED)                                                                       \
			((taken) ? check_lock_acquired : check_lock_released)(lock);               \
	} while (0)
#endif

/* Slow paths. */
bool lock_wait(struct lock *lock, uint32_t slot);
void lock_wake(struct lock *lock);

/* Takes the lock if it is free. */
static inline bool lock_try(struct lock *lock, uint32_t slot)
{
	uint32_t free = 0;

	if (CHECKED && chaos_makes_busy())
		return false;
	if (UNLIKELY(!__atomic_compare_exchange_n(&lock->word, &free, slot + 1, false,
						  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
		return false;
	LOCK_CHECK(lock, true);
	return true;
}

/* False: timed out, which is counted. */
static inline bool lock_acquire(struct lock *lock, uint32_t slot)
{
	return LIKELY(lock_try(lock, slot)) || lock_wait(lock, slot);
}

static inline void lock_release(struct lock *lock)
{
	LOCK_CHECK(lock, false);
	if (UNLIKELY(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) & LOCK_WAITED))
		lock_wake(lock);
}

static inline bool lock_is_held(const struct lock *lock)
{
	return __atomic_load_n(&lock->word, __ATOMIC_ACQUIRE) != 0;
}

static inline bool lock_is_mine(const struct lock *lock, uint32_t slot)
{
	return (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) & LOCK_OWNER) == slot + 1;
}

/* Releases the lock if an abandoned hook of `slot` holds it. */
static inline void lock_recover(struct lock *lock, uint32_t slot)
{
	if (!lock_is_mine(lock, slot))
		return;
	if (CHECKED)
		check_lock_recovered(lock);
	lock_release(lock);
}
#endif
