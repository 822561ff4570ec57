/* SPDX-License-Identifier: Apache-2.0 */
/* Descendants that live on when the program has ended: who they are, and letting them go. */
#ifndef COLLECT_RUN_SURVIVORS_H
#define COLLECT_RUN_SURVIVORS_H

#include <stdint.h>

#include "collect/run/collector.h"

/* Those who live now: recorded ones, and children that were not heard from. Called by the loop. */
void survivors_list(struct collector *c, uint64_t now_ns, struct collect_survivors *ret);

/* From now on they record nothing, and what they fork or exec gets no recorder. They keep the memory that they have. */
void survivors_let_go(struct collector *c);

#endif
