/* SPDX-License-Identifier: Apache-2.0 */
/* Marks and snapshots that the program requests: hg_mark and hg_snapshot. */
#ifndef RECORDER_COUNTERS_MARKS_H
#define RECORDER_COUNTERS_MARKS_H

#include "recorder/slot.h"

void marks_reset(void);
void marks_recover(struct slot *slot);

/* Records the time; for a snapshot also the values of all site counters. Inside a hook. */
void marks_add(struct slot *slot, enum live_mark_kind kind, const char *name);

/* Takes a snapshot every settings_every_ms, without a collector: a clock_also_fn. */
void marks_by_time(struct slot *slot, uint64_t now_ms);
#endif
