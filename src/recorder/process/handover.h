/* SPDX-License-Identifier: Apache-2.0 */
/* Hands the profile over to the collector: one message without a reply. */
#ifndef RECORDER_PROCESS_HANDOVER_H
#define RECORDER_PROCESS_HANDOVER_H

#include <stdint.h>

#include "format/live/live_handover.h"

enum handover {
	HANDOVER_SENT,	 /* queued: the collector gets it even if this process ends now */
	HANDOVER_BUSY,	 /* cannot be sent now: no free descriptor, or the queue is full */
	HANDOVER_NOBODY, /* no listener that may know about this process */
};

/* Sends the profile's descriptor. fd -1: sends only its address, `at`; NULL:
 * this process should not be recorded. Never waits. */
enum handover handover_send(int fd, const void *at, struct live_ticket ticket);
#endif
