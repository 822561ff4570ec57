/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's clocks in nanoseconds, and units of time. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* For durations and deadlines; the clock of profiles. Stops while the machine is suspended. */
static inline uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* Wall-clock time, in nanoseconds since 1970. */
static inline uint64_t clock_real_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

/* CPU time of the calling thread. */
static inline uint64_t clock_thread_cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The offset from the monotonic clock to wall-clock time. */
static inline uint64_t clock_real_offset_ns(void)
{
	return clock_real_ns() - clock_monotonic_ns();
}

#endif
