/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous memory that the program maps itself: ranges with their record, cut and split as the program unmaps. */
#ifndef RECORDER_MAPS_H
#define RECORDER_MAPS_H

#include "recorder/slot.h"

void maps_reset(void);
void maps_recover(struct slot *slot);

/* [start, start + bytes) was mapped by the site of `record`. */
void maps_add(struct slot *slot, uintptr_t start, uint64_t bytes, uint32_t record);

/* What is known of [start, start + bytes) is gone: counted as freed at the records that mapped it. */
void maps_remove(struct slot *slot, uintptr_t start, uint64_t bytes);

/* Around mremap: the table stands still, so that nobody enters the old place before it is taken out. Between begin
 * (which may fail) and end, maps_move tells what became of the range. */
bool maps_begin(struct slot *slot);
void maps_move(struct slot *slot, uintptr_t from, uint64_t from_bytes, uintptr_t to,
	       uint64_t to_bytes, uint32_t record);
void maps_end(void);
#endif
