/* SPDX-License-Identifier: Apache-2.0 */
/* See cpu_limit.h.
 *
 * Owns: the time spent, and the limit. Any thread: the first one after a period reads the clocks, with two system calls.
 * Ticks are converted to nanoseconds by comparing both over the same period, so nothing needs to be known about the
 * counter. */
#include "recorder/sampling/cpu_limit.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "recorder/sampling/sampler.h"
#include "recorder/sys.h"

enum {
	PERIOD_MS = 200,
	MILLION = 1000000, /* the limit is in millionths */
	MUCH = 4,	   /* factor above or below the limit that counts as far off */
};

PROCESS_STATE bool cpu_limit_is_set;
PROCESS_STATE uint32_t cpu_limit_doublings;

static PROCESS_STATE uint64_t spent; /* ticks, in this period */
static PROCESS_STATE uint64_t next_ms;
static PROCESS_STATE struct moment {
	uint64_t ticks, wall_ns, cpu_ns;
} before;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now = { 0 };

	sys_call3(SYS_clock_gettime, clock, (long)&now, 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct moment moment_now(void)
{
	return (struct moment){ arch_ticks(), clock_ns(CLOCK_MONOTONIC),
				clock_ns(CLOCK_PROCESS_CPUTIME_ID) };
}

/* Every CPU has the counter, but a program may have requested a signal when it is read. */
bool counter_is_readable(void)
{
	int how = 0;
	long status = sys_call3(SYS_prctl, PR_GET_TSC, (long)&how, 0);

	return (!ARCH_KERNEL_KNOWS_COUNTER && status == -EINVAL) ||
	       (!sys_failed(status) && how == PR_TSC_ENABLE);
}

void cpu_limit_start(void)
{
	spent = 0;
	cpu_limit_doublings = 0;
	next_ms = PERIOD_MS;
	cpu_limit_is_set = memory.control->cpu_millionths != 0 && counter_is_readable();
	if (cpu_limit_is_set)
		before = moment_now();
}

void cpu_limit_stop(void)
{
	cpu_limit_is_set = false;
}

/* a * b / by, to about six digits: a division of 128 bits would need the compiler's library, whose code may have no landing pads
 * (BTI). */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t by)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	for (; product >> 64 != 0; product >>= 1)
		by >>= 1;
	return (uint64_t)product / MAX(by, UINT64_C(1));
}

/* The share of CPU time that samples took since `before`, in millionths. */
static uint64_t share(uint64_t ticks, const struct moment *now)
{
	uint64_t all_ticks = MAX(now->ticks - before.ticks, UINT64_C(1));
	uint64_t cpu_ns = MAX(now->cpu_ns - before.cpu_ns, UINT64_C(1));
	uint64_t ns = scale(ticks, now->wall_ns - before.wall_ns, all_ticks);

	/* Does not overflow below 5 hours of CPU time. */
	return MIN(ns, cpu_ns) * MILLION / cpu_ns;
}

static void adjust(void)
{
	uint64_t budget = memory.control->cpu_millionths, took;
	uint64_t interval = MAX(memory.control->interval, (uint64_t)SAMPLE_INTERVAL_MIN);
	uint32_t doublings = cpu_limit_doublings;
	struct moment now = moment_now();

	took = share(__atomic_exchange_n(&spent, 0, __ATOMIC_RELAXED), &now);
	before = now;
	if (took > budget)
		doublings += took > budget * MUCH ? 2 : 1;
	else if (took < budget / MUCH && doublings > 0)
		doublings--;
	while (doublings > 0 && interval << doublings > SAMPLE_INTERVAL_MAX)
		doublings--;
	__atomic_store_n(&cpu_limit_doublings, doublings, __ATOMIC_RELAXED);
}

NOINLINE void cpu_limit_spent(uint64_t ticks)
{
	uint64_t now = clock_ms(), due = __atomic_load_n(&next_ms, __ATOMIC_RELAXED);

	__atomic_add_fetch(&spent, ticks, __ATOMIC_RELAXED);
	if (now >= due && sys_may(SYS_OTHERS) &&
	    __atomic_compare_exchange_n(&next_ms, &due, UINT64_MAX, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED)) {
		adjust();
		__atomic_store_n(&next_ms, now + PERIOD_MS, __ATOMIC_RELEASE);
	}
}
