/* SPDX-License-Identifier: Apache-2.0 */
/* Spin locks of the recorder. Held for a few hundred instructions, never over a system call or the allocator.
 *
 * A lock knows its owner, so that a hook which was left by longjmp or an exception can give back what it held. If an
 * owner vanished for good (asynchronous cancellation), waiters give up after a while, count it, and from then on hardly
 * wait: the target must not hang because of us. */
#ifndef RECORDER_LOCK_H
#define RECORDER_LOCK_H

#include <stdbool.h>

#include "recorder/memory.h"

struct lock {
	uint32_t owner; /* slot + 1; 0 = free. Acquire on taking, release on giving back */
	uint32_t broken;
};

/* Lock ranks, outermost first: modules, rules; sites; peak; maps. A thread holds one at a time, except that rules are
 * made under the modules' lock. */
enum { LOCK_SPINS = 1 << 24, LOCK_SPINS_BROKEN = 1 << 6 };

static inline bool lock_take(struct lock *lock, uint32_t slot)
{
	uint32_t spins = UNLIKELY(lock->broken) ? LOCK_SPINS_BROKEN : LOCK_SPINS;

	for (uint32_t i = 0; i < spins; i++) {
		uint32_t free = 0;

		if (LIKELY(__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == 0) &&
		    __atomic_compare_exchange_n(&lock->owner, &free, slot + 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			lock->broken = 0;
			return true;
		}
		__builtin_ia32_pause();
	}
	lock->broken = 1;
	health_add(HEALTH_lock_timeouts);
	return false;
}

static inline void lock_give(struct lock *lock)
{
	__atomic_store_n(&lock->owner, 0, __ATOMIC_RELEASE);
}

/* After an abandoned hook of `slot`. */
static inline void lock_recover(struct lock *lock, uint32_t slot)
{
	if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == slot + 1)
		lock_give(lock);
}
#endif
