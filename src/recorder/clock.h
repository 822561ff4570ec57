/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of the profile, in its control page. A collector moves it about every millisecond. Where there is none, or while
 * it is stopped, the process moves it itself, from paths that are slow anyway: the others only read it. */
#ifndef RECORDER_CLOCK_H
#define RECORDER_CLOCK_H

#include "recorder/slot.h"

/* A profile begins. */
void clock_start(void);

/* How often a thread may see the same time before it reads the clock. */
extern HIDDEN uint32_t clock_wait_calls;
void clock_tick_slow(struct slot *slot);

static ALWAYS_INLINE void clock_tick(struct slot *slot)
{
	uint64_t now = clock_ms();

	if (LIKELY(now != slot->clock_seen_ms)) {
		slot->clock_seen_ms = now;
		slot->clock_seen = 0;
	} else if (UNLIKELY(++slot->clock_seen >= clock_wait_calls)) {
		clock_tick_slow(slot);
	}
}
#endif
