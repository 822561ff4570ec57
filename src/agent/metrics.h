/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of all processes, and of the agent itself, for Prometheus: its text format, or OpenMetrics. */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/processes.h"
#include "util/buffer.h"

enum { METRICS_SERIES_MAX = 10000 };

/* A counter or gauge of the agent. */
struct metrics_own {
	const char *name, *help;
	bool is_counter;
	const char *key, *value; /* one label; NULL: none */
	double number;
};

/* Own numbers of the same name must be next to each other. Beyond METRICS_SERIES_MAX series of processes, the rest is left out
 * and counted. */
void metrics_write(struct buffer *out, const struct processes *processes,
		   const struct metrics_own *own, size_t own_count, bool openmetrics);

#endif
