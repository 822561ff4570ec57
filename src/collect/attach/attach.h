/* SPDX-License-Identifier: Apache-2.0 */
/* Recording a process that records itself already: nobody started it for us, and it lives on when we go. */
#ifndef COLLECT_ATTACH_ATTACH_H
#define COLLECT_ATTACH_ATTACH_H

#include "collect/collect.h"

struct attach_options {
	pid_t pid;
	const char *output;  /* NULL = heapgauge.PROGRAM.PID.hg */
	const char *version; /* of heapgauge */
	bool turn; /* the recording mode is set to `mode` for as long as it takes; of a dormant one in any case */
	enum live_mode mode;
	uint64_t interval;		 /* of samples */
	const struct triggers *triggers; /* when to take snapshots, or to write */
	unsigned write_limit;		 /* how many recordings they may write */
	collect_say *say;		 /* NULL = nobody listens */
	void (*progress)(void *context, const struct collect_progress *progress);
	void *context;
};

/* Until the process has ended, or a signal asks to stop; then writes the recording. Of the result end is COLLECT_LEFT if the
 * process lives on. -1 with the error set if it cannot be read, or the recording cannot be written. */
int collect_attach(const struct attach_options *options, struct collect_result *ret,
		   struct error *error);

#endif
