/* SPDX-License-Identifier: Apache-2.0 */
/* CLOCK_MONOTONIC_COARSE from the vdso: no system call, and no read of the time-stamp counter.
 *
 * Owns: the vdso function. Any thread advances the clock, and so does a collector; it never goes back. */
#include "recorder/clock.h"

#include <time.h>

#include "base/checked.h"
#include "recorder/arch/arch.h"
#include "recorder/lookup.h"
#include "recorder/process/settings.h"

enum {
	STOPPED_MS = 250,
	STOPPED_OPERATIONS = 1000, /* operations that got a wrong time */
	COLLECTOR_WAIT_CALLS = 16,
};
#define NS_PER_MS 1000000u

typedef int clock_fn(clockid_t, struct timespec *);
static clock_fn *coarse_clock;
PROCESS_STATE uint32_t clock_wait_calls;
clock_also_fn *clock_also;

void clock_start(void)
{
	if (coarse_clock == NULL)
		coarse_clock = (clock_fn *)lookup_vdso(ARCH_VDSO_CLOCK);
	clock_wait_calls = settings_of_collector ? COLLECTOR_WAIT_CALLS : 1;
	if (coarse_clock == NULL)
		clock_wait_calls = UINT32_MAX;
}

/* The clock may stand still while no slow path runs. If many operations happened meanwhile, their lifetimes are too
 * short, which is reported. */
static void note_gap(struct slot *slot, uint64_t gap_ms)
{
	uint64_t operations = slot->live->calls + slot->live->frees;

	if (gap_ms >= STOPPED_MS && operations - slot->operations_at_tick > STOPPED_OPERATIONS)
		__atomic_add_fetch(&memory.head->health[HEALTH_clock_stopped_ms], gap_ms,
				   __ATOMIC_RELAXED);
	slot->operations_at_tick = operations;
}

/* Ends an expired lease: the process that set the mode has ended, or it would have renewed it. */
static void end_lease(uint64_t now_ms)
{
	struct live_control *control = memory.control;
	uint64_t until = __atomic_load_n(&control->lease_until_ms, __ATOMIC_ACQUIRE);

	if (LIKELY(until == 0) || now_ms < until ||
	    !__atomic_compare_exchange_n(&control->lease_until_ms, &until, 0, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&control->interval, control->interval_after, __ATOMIC_RELAXED);
	__atomic_store_n(&control->mode, control->mode_after, __ATOMIC_RELEASE);
}

NOINLINE void clock_tick_slow(struct slot *slot)
{
	struct timespec now;

	slot->clock_seen = 0;
	if (coarse_clock == NULL || coarse_clock(CLOCK_MONOTONIC_COARSE, &now) != 0)
		return;
	uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	uint64_t ms = live_clock(saturating_sub(ns, memory.head->started_mono_ns) / NS_PER_MS);
	uint64_t before = __atomic_load_n(&memory.control->clock_ms, __ATOMIC_RELAXED);

	/* Another thread may have been faster, or a collector has a finer clock: never go back. */
	if (ms <= before)
		return;
	if (!__atomic_compare_exchange_n(&memory.control->clock_ms, &before, ms, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	note_gap(slot, ms - before);
	end_lease(ms);
	if (UNLIKELY(clock_also != NULL))
		clock_also(slot, ms);
}
