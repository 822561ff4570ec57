/* SPDX-License-Identifier: Apache-2.0 */
/* Joint distributions: sizes before and after a realloc, sizes and lifetimes. Of the whole process. */
#ifndef RECORDER_COUNTERS_PAIRS_H
#define RECORDER_COUNTERS_PAIRS_H

#include "recorder/slot.h"

/* Counts a pair of numbers. */
void pairs_count(struct slot *slot, enum live_pairs_kind kind, uint64_t first, uint64_t second,
		 uint64_t weight);

/* Starts over in a forked child. */
void pairs_reset(void);
#endif
