/* SPDX-License-Identifier: Apache-2.0 */
/* See gate.h.
 *
 * Owns: one word: how many are inside, and whether it is closed. Who finds it closed steps back and waits. All waiting ends:
 * the target must not hang because of us. */
#include "recorder/gate.h"

#include "recorder/lock.h"

#define CLOSED (UINT64_C(1) << 63)
enum { CLOSE_SPINS = 1 << 18 }; /* some ten milliseconds: somebody inside may have no processor */

static uint64_t word;
static bool broken; /* it was found closed for too long once: from now on hardly anybody waits */

bool gate_enter_as_guest(void)
{
	uint32_t spins = UNLIKELY(broken) ? LOCK_SPINS_BROKEN : LOCK_SPINS;

	for (;;) {
		if (LIKELY(!(__atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST) & CLOSED)))
			return true;
		gate_leave_as_guest();
		while (__atomic_load_n(&word, __ATOMIC_RELAXED) & CLOSED) {
			if (spins-- == 0) {
				broken = true;
				health_add(HEALTH_lock_timeouts);
				return false;
			}
			__builtin_ia32_pause();
		}
	}
}

void gate_leave_as_guest(void)
{
	__atomic_sub_fetch(&word, 1, __ATOMIC_SEQ_CST);
}

bool gate_enter_slow(struct slot *slot)
{
	if (slot->inside == 0 && !gate_enter_as_guest())
		return false;
	slot->inside++;
	return true;
}

void gate_leave_slow(struct slot *slot)
{
	if (--slot->inside == 0)
		gate_leave_as_guest();
}

void gate_open(void)
{
	__atomic_and_fetch(&word, ~CLOSED, __ATOMIC_SEQ_CST);
}

bool gate_close(void)
{
	if (__atomic_fetch_or(&word, CLOSED, __ATOMIC_SEQ_CST) & CLOSED)
		return false; /* another has */
	for (uint32_t i = 0; i < CLOSE_SPINS; i++) {
		if (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == CLOSED)
			return true;
		__builtin_ia32_pause();
	}
	gate_open();
	return false;
}

void gate_recover(struct slot *slot)
{
	if (slot->inside == 0)
		return;
	slot->inside = 0;
	gate_leave_as_guest();
}

void gate_reset(void)
{
	word = 0;
	broken = false;
}
