/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of the recorder. One is held for a few hundred instructions, never over a system call or a call of the allocator,
 * and no thread holds two: there is no order to keep.
 *
 * The owner may lose its processor all the same. A waiter spins shortly and then sleeps in the kernel, if the program's
 * seccomp filter lets it, LOCK_WAITS times LOCK_WAIT_NS at most. Then it gives up and counts that: the target must not hang
 * because of us, even if the owner has vanished (asynchronous cancellation). Until that owner gives the lock back, others
 * sleep once, and after LOCK_GIVE_UPS of them not at all. What giving up means is the caller's affair; the end of a block is
 * kept for later (deferred_frees.h).
 *
 * A lock knows its owner, so that a hook which was left by longjmp or an exception can give back what it held. */
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
		25, /* 100 ms in all, also if each was cut short because the lock was free for a moment */
	LOCK_WAIT_NS = 4 * 1000 * 1000,
	LOCK_GIVE_UPS = 256,
};

struct lock {
	uint32_t
		word; /* 0 = free; else the owner's slot + 1 and flags. Acquire on taking, release on giving back */
};

#define LOCK_WAITED (UINT32_C(1) << 31) /* somebody may be asleep: to be woken */
#define LOCK_GIVEN_UP                                                                              \
	(UINT32_C(1)                                                                               \
	 << 20) /* in units: how often on this owner; LOCK_GIVE_UPS is where that ends */
#define LOCK_OWNER (LOCK_GIVEN_UP - 1)

/* That a thread holds one lock at a time, and calls nobody meanwhile. A test may have its own. */
#ifndef LOCK_CHECK
#define LOCK_CHECK(lock, taken)                                                                    \
	do {                                                                                       \
		if (CHECKED)                                                                       \
			((taken) ? check_lock_taken : check_lock_released)(lock);                  \
	} while (0)
#endif

/* The slow sides. */
bool lock_wait(struct lock *lock, uint32_t slot);
void lock_wake(struct lock *lock);

/* Takes it if that needs no waiting. */
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

/* False: it could not be taken, which is counted. */
static inline bool lock_take(struct lock *lock, uint32_t slot)
{
	return LIKELY(lock_try(lock, slot)) || lock_wait(lock, slot);
}

static inline void lock_give(struct lock *lock)
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

/* After an abandoned hook of `slot`. */
static inline void lock_recover(struct lock *lock, uint32_t slot)
{
	if (!lock_is_mine(lock, slot))
		return;
	if (CHECKED)
		check_lock_recovered(lock);
	lock_give(lock);
}
#endif
