/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous memory that the program maps itself: ranges with their site counters, cut and split as the program unmaps. */
#ifndef RECORDER_COUNTERS_MAPS_H
#define RECORDER_COUNTERS_MAPS_H

#include "recorder/slot.h"

void maps_reset(void);
void maps_recover(struct slot *slot);

/* [start, start + bytes) was mapped by the site of `counters`. */
void maps_add(struct slot *slot, uintptr_t start, uint64_t bytes, uint32_t counters);

/* What is known of [start, start + bytes) is forgotten: counted as freed at the sites that mapped it. */
void maps_remove(struct slot *slot, uintptr_t start, uint64_t bytes);

/* Before mremap: nothing is known of the range (0), or which of it may be taken out afterwards: what comes there meanwhile
 * is another thread's. Then what became of it, if the call has succeeded. */
uint64_t maps_before_move(struct slot *slot, uintptr_t start, uint64_t bytes);
void maps_move(struct slot *slot, uint64_t until, uintptr_t from, uint64_t from_bytes, uintptr_t to,
	       uint64_t to_bytes, uint32_t counters);
#endif
