/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of all processes, and of the agent itself, for Prometheus: its text format, or OpenMetrics. */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/processes.h"
#include "util/buffer.h"

/* The service_name of the sum of those processes that have no series of their own. It has no pid. */
#define METRICS_REST "others"

/* A counter or gauge of the agent. */
struct metrics_own {
	const char *name, *help;
	bool is_counter;
	const char *key, *value; /* one label; NULL: none */
	double number;
};

/* Own numbers of the same name must be next to each other. Beyond max-series of the settings, the smallest processes are summed
 * and the series that they lack counted. */
void metrics_write(struct buffer *out, struct processes *processes, const struct metrics_own *own,
		   size_t own_count, bool openmetrics);

/* Call before a new reading replaces the last one of the process. */
void metrics_count(struct processes *processes, const struct agent_process *process,
		   const struct reading *now);

#endif
