/* SPDX-License-Identifier: Apache-2.0 */
/* Launches the program: with its original signal state and the recorder preloaded, and nothing else changed. */
#ifndef COLLECT_RUN_LAUNCH_H
#define COLLECT_RUN_LAUNCH_H

#include <signal.h>
#include <sys/types.h>

#include "collect/process/triggers.h"
#include "format/live/live_handover.h"
#include "util/error.h"

/* Signal state that the collector changes for itself and restores for the program. */
struct launch_signals {
	sigset_t mask;
	struct sigaction child, pipe, file_size;
};

/* Blocks the signals that the collector reads from a signalfd, including those of triggers. Returns the signalfd, or -1 with
 * error set. */
int launch_signals_take(struct launch_signals *saved, const struct triggers *triggers,
			struct error *error);
void launch_signals_give_back(const struct launch_signals *saved);

struct launch {
	char *const *argv;
	const char *recorder;
	const struct live_settings *settings;
	const struct launch_signals *signals;
};

/* The program's pid, or -1 with error set and *ret_status the exit status that a shell would give. */
pid_t launch_start(const struct launch *launch, int *ret_status, struct error *error);

#endif
