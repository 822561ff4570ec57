/* SPDX-License-Identifier: Apache-2.0 */
/* Moments that the program names: hg_mark and hg_snapshot. */
#ifndef RECORDER_COUNTERS_MARKS_H
#define RECORDER_COUNTERS_MARKS_H

#include "recorder/slot.h"

void marks_reset(void);
void marks_recover(struct slot *slot);

/* Notes the moment; of a snapshot also what all site counters say now. Inside a hook. */
void marks_add(struct slot *slot, enum live_mark_kind kind, const char *name);
#endif
