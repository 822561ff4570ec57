/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is for a recorder without a collector, and what the process runs under. At start-up only;
 * single caller. */
#ifndef RECORDER_PROCESS_SELF_BUDGET_H
#define RECORDER_PROCESS_SELF_BUDGET_H

#include <stdint.h>

#include "format/live/live.h"
#include "format/live/live_budget.h"

/* Which control group the process is in, and no more. */
void self_budget_group(struct live_own *own);

/* Fills what `own` says of the control group. */
struct live_budget self_budget_find(struct live_own *own);

/* The number behind the field's name; `otherwise` if it is not there. Pure. */
uint64_t self_budget_number(const char *text, const char *field, uint64_t otherwise);
#endif
