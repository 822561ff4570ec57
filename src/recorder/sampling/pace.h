/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of samples where the user said what they may cost: a share of the process' processor time. The interval is doubled
 * while samples take more, and halved again while they take much less; never below the interval that was asked for. Steps of two,
 * because each interval has sites of its own. */
#ifndef RECORDER_SAMPLING_PACE_H
#define RECORDER_SAMPLING_PACE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "recorder/memory.h"

extern HIDDEN bool pace_is_kept;
extern HIDDEN uint32_t pace_doublings;

void pace_start(void);

/* The program is about to forbid itself to read the time-stamp counter: us, too. */
void pace_stop(void);

void pace_spent(uint64_t ticks);

/* Around whatever a sample costs. Ticks of the time-stamp counter: no system call, and as fine as need be. */
static ALWAYS_INLINE uint64_t pace_now(void)
{
	return UNLIKELY(pace_is_kept) ? __builtin_ia32_rdtsc() : 0;
}
static ALWAYS_INLINE void pace_took_since(uint64_t then)
{
	if (UNLIKELY(then != 0))
		pace_spent(__builtin_ia32_rdtsc() - then);
}
#endif
