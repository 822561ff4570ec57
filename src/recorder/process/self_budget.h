/* SPDX-License-Identifier: Apache-2.0 */
/* The memory budget of a recorder without a collector, and the process' control group. At start-up only; single caller. */
#ifndef RECORDER_PROCESS_SELF_BUDGET_H
#define RECORDER_PROCESS_SELF_BUDGET_H

#include <stdint.h>

#include "format/live/live.h"
#include "format/live/live_budget.h"

/* Finds only the control group of the process. */
void self_budget_group(struct live_own *own);

/* Also fills in the control group's limits in `own`. */
struct live_budget self_budget_find(struct live_own *own);

/* The number after a field's name; `otherwise` if it is missing. Pure. */
uint64_t self_budget_number(const char *text, const char *field, uint64_t otherwise);
#endif
