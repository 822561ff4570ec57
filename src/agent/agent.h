/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: one per machine or pod. Finds recorded processes, reads each once per interval, serves what it found to Prometheus
 * and pprof, and hands profiles to the stores that the settings name. It stores nothing but what waits to be sent.
 *
 * Threads: the loop (agent.c), those of the server (endpoints.c), the sender's. The process table is changed by the loop under
 * the lock, and read by the others under the lock.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_settings.h"
#include "agent/processes.h"
#include "agent/reading/reader.h"
#include "util/buffer.h"
#include "util/error.h"

struct outlets;

/* Reports an event: one sentence. */
typedef void agent_print(const char *sentence);

struct agent {
	const struct agent_settings *settings;
	const char *version;
	agent_print *print;
	struct reader reader;
	pthread_mutex_t lock; /* of `processes` and `counts` */
	struct processes processes;
	struct outlets *outlets; /* where profiles go; NULL: nowhere */
	uint64_t started_mono_ns, scanned_ns;
	struct agent_rest {
		uint32_t uid;
		uint64_t until_ns; /* CLOCK_MONOTONIC: no reading before; 0: none */
	} rests[16];		   /* of users whose readings took long */
	struct agent_counts {
		uint64_t readings, failed_readings;
		uint64_t folded_stacks;
		uint64_t empty; /* ended before they had recorded anything */
		uint64_t ended[FATE_OOM + 1];
	} counts;
};

/* Runs until SIGINT or SIGTERM. -1 with the error set if it cannot start. */
int agent_run(const struct agent_settings *settings, const char *version, agent_print *print,
	      struct error *error);

/* Checks what can be checked without running: secrets, folders, libraries. -1 with the error set. */
int agent_check(const struct agent_settings *settings, struct error *error);

/* For the reader: everything but the baseline. */
struct reading_request agent_request(const struct agent *agent,
				     const struct agent_process *process);

#endif
