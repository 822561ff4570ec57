/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's state, shared by its loop (collect.c) and the writing of the recording (write.c). */
#ifndef COLLECT_COLLECTOR_H
#define COLLECT_COLLECTOR_H

#include <poll.h>

#include "collect/collect.h"
#include "collect/handover.h"
#include "collect/target.h"
#include "util/vector.h"

/* A connection whose hello has not come yet. */
struct pending {
	int fd;
	pid_t pid;
	uint64_t since_ns;
};

struct collector {
	const struct collect_options *options;
	struct collect_result *result;
	struct listener listener;
	int signal_fd;
	pid_t child;
	bool child_ended;
	bool left; /* asked twice to stop */
	int left_signal;
	unsigned stop_signals;
	VECTOR(struct pending) pending;
	VECTOR(struct target *) targets;
	VECTOR(struct pollfd) polls;
	uint64_t start_ns, end_ns;    /* CLOCK_MONOTONIC */
	uint64_t peak_bytes, peak_ns; /* of all processes together, as sampled */
	uint64_t next_progress_ns, progress_ns, progress_calls;
	char last_error[ERROR_MESSAGE_BYTES]; /* why a recorder was sent away */
};

uint64_t collector_now(void);

/* Reads every target and writes the recording; the targets' series are used up by it. */
int collector_write(struct collector *collector, const char *path, struct error *error);

#endif
