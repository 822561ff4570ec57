/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous memory that the program maps itself: ranges with their site counters, trimmed and split as the program unmaps. */
#ifndef RECORDER_COUNTERS_MAPS_H
#define RECORDER_COUNTERS_MAPS_H

#include "recorder/slot.h"

void maps_reset(void);
void maps_recover(struct slot *slot);

/* Records that the site of `counters` mapped [start, start + bytes). */
void maps_add(struct slot *slot, uintptr_t start, uint64_t bytes, uint32_t counters);

/* Removes all known ranges in [start, start + bytes) and counts them as freed at the sites that mapped them. */
void maps_remove(struct slot *slot, uintptr_t start, uint64_t bytes);

/* The same for an munmap that succeeded, where another thread may have mapped something since: only ranges added before `until`, the
 * value of maps_additions before the call, are removed. */
uint64_t maps_additions(void);
void maps_remove_before(struct slot *slot, uint64_t until, uintptr_t start, uint64_t bytes);

/* Call maps_before_move before mremap, then maps_move, or maps_stay if it failed. It returns 0 if nothing in the range is known,
 * else a bound: maps_move removes only ranges added before it, because later ones belong to other threads. The ranges are marked as
 * moving, so that another thread that gets these addresses unrecorded cannot move them as its own. */
uint64_t maps_before_move(struct slot *slot, uintptr_t start, uint64_t bytes);
void maps_stay(struct slot *slot, uint64_t until, uintptr_t start, uint64_t bytes);
void maps_move(struct slot *slot, uint64_t until, uintptr_t from, uint64_t from_bytes, uintptr_t to,
	       uint64_t to_bytes, uint32_t counters);
#endif
