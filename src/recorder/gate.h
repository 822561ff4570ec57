/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: who works with records, sites and nodes while they may be moved (evict.c) goes through it.
 *
 * They are moved only in a process that has never recorded exactly, and there only samples and mappings are recorded: seldom,
 * so that one common word is cheap enough. In all others nobody asks. */
#ifndef RECORDER_GATE_H
#define RECORDER_GATE_H

#include "recorder/sample.h"
#include "recorder/slot.h"

/* May be nested. False: whoever closed it has vanished; then nothing may be touched. Never while a lock is held. */
bool gate_enter_slow(struct slot *slot);
void gate_leave_slow(struct slot *slot);

static ALWAYS_INLINE bool gate_enter(struct slot *slot)
{
	return LIKELY(!sample_filters) || gate_enter_slow(slot);
}
static ALWAYS_INLINE void gate_leave(struct slot *slot)
{
	if (UNLIKELY(slot->inside != 0))
		gate_leave_slow(slot);
}

/* The same for a thread that has no slot yet. */
bool gate_enter_as_guest(void);
void gate_leave_as_guest(void);

/* Nobody is inside, and nobody comes in, until it is opened. False: somebody is and stays there. The caller is outside. */
bool gate_close(void);
void gate_open(void);

/* After an abandoned hook; a fork's child begins anew. */
void gate_recover(struct slot *slot);
void gate_reset(void);
#endif
