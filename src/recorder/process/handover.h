/* SPDX-License-Identifier: Apache-2.0 */
/* Handing the profile over to the collector: one message that nobody answers. */
#ifndef RECORDER_PROCESS_HANDOVER_H
#define RECORDER_PROCESS_HANDOVER_H

#include <stdint.h>

#include "format/live/live_handover.h"

enum handover {
	HANDOVER_SENT,	 /* queued: the collector gets it even if this process ends now */
	HANDOVER_BUSY,	 /* it cannot be sent now: no descriptor to spare, or too many are queued */
	HANDOVER_NOBODY, /* nobody listens who may know of this process */
};

/* Sends the descriptor of the profile; fd -1: only where it lies, `at`; NULL: that this process is not to be recorded. Never
 * waits. */
enum handover handover_send(int fd, const void *at, struct live_ticket ticket);
#endif
