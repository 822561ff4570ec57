/* SPDX-License-Identifier: Apache-2.0 */
/* Making room in a profile that must not grow: stacks that hold nothing any more give way to new ones.
 *
 * For processes that record themselves and only ever sample. What a stack that goes has counted is added to [other] of its
 * slot, so that all totals stay as they are; those of the largest totals stay. Everything that stays is written anew to
 * another place in the mapping, then the head is changed, then the old place is given back: whoever finds the profile after
 * a SIGKILL at any moment finds it whole. */
#ifndef RECORDER_EVICT_H
#define RECORDER_EVICT_H

#include <stdbool.h>

/* Before a sample is recorded; outside of the gate. */
bool evict_is_due(void);
void evict(void);

/* A profile begins. */
void evict_start(void);
#endif
