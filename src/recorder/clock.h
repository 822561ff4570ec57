/* SPDX-License-Identifier: Apache-2.0 */
/* The profile's clock, in the control page. A collector advances it about every millisecond. Without a collector, or while
 * it is stopped, the process advances the clock itself on slow paths; fast paths only read it. */
#ifndef RECORDER_CLOCK_H
#define RECORDER_CLOCK_H

#include "recorder/slot.h"

/* Call when a profile is created. */
void clock_start(void);

/* How often a thread may see the same time before it reads the system clock. */
extern HIDDEN uint32_t clock_wait_calls;

/* Called after the clock was advanced here, in a hook and without a lock; NULL: nothing. */
typedef void clock_also_fn(struct slot *slot, uint64_t now_ms);
extern HIDDEN clock_also_fn *clock_also;

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
