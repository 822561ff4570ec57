/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a lock. See lock.h.
 *
 * The word is the futex. A waiter sets LOCK_WAITED before it sleeps and keeps it set when it takes the lock, since others
 * may still be asleep: so no owner releases the lock without waking one of them. The timeout is for owners that vanish,
 * and for a filter that forbids the wake while a waiter sleeps. */
#include "recorder/lock.h"

#include <linux/futex.h>
#include <time.h>

#include "recorder/memory.h"
#include "recorder/sys.h"

/* Returns 0 if it took the lock, with the value `mine`; else the last value seen. */
static uint32_t spin(struct lock *lock, uint32_t mine)
{
	uint32_t seen = 1;

	for (unsigned i = 0; i < LOCK_SPINS && seen != 0; i++) {
		arch_pause();
		seen = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
		if (seen == 0)
			__atomic_compare_exchange_n(&lock->word, &seen, mine, false,
						    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	}
	return seen;
}

/* Sets LOCK_WAITED and sleeps while the word does not change. */
static void sleep_while(struct lock *lock, uint32_t seen)
{
	const struct timespec most = { .tv_nsec = LOCK_WAIT_NS };

	if (!(seen & LOCK_WAITED) &&
	    !__atomic_compare_exchange_n(&lock->word, &seen, seen | LOCK_WAITED, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	sys_call6(SYS_futex, (long)&lock->word, FUTEX_WAIT_PRIVATE, (long)(seen | LOCK_WAITED),
		  (long)&most, 0, 0);
}

static uint32_t give_ups(uint32_t seen)
{
	return (seen & ~LOCK_WAITED) / LOCK_GIVEN_UP;
}

/* How often a waiter may sleep for this owner. */
static unsigned waits_for(uint32_t seen)
{
	if (!sys_may(SYS_WAIT) || give_ups(seen) >= LOCK_GIVE_UPS)
		return 0;
	return give_ups(seen) == 0 ? LOCK_WAITS : 1;
}

COLD bool lock_wait(struct lock *lock, uint32_t slot)
{
	uint32_t mine = slot + 1, seen;

	if (CHECKED && chaos_refuses_lock()) {
		health_add(HEALTH_lock_timeouts);
		return false;
	}
	for (unsigned waits = 0; (seen = spin(lock, mine)) != 0; waits++) {
		if (waits >= waits_for(seen)) {
			uint32_t more = give_ups(seen) < LOCK_GIVE_UPS ? LOCK_GIVEN_UP : 0;

			/* Pass a wake-up that we may have consumed on to the next waiter. */
			__atomic_compare_exchange_n(&lock->word, &seen,
						    (seen + more) | (mine & LOCK_WAITED), false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
			health_add(HEALTH_lock_timeouts);
			return false;
		}
		sleep_while(lock, seen);
		mine = (slot + 1) | LOCK_WAITED;
	}
	LOCK_CHECK(lock, true);
	return true;
}

COLD void lock_wake(struct lock *lock)
{
	if (sys_may(SYS_WAIT))
		sys_call3(SYS_futex, (long)&lock->word, FUTEX_WAKE_PRIVATE, 1);
}
