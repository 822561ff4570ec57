/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where profiles go: the queue to Pyroscope, files for object storage, and recordings of processes that were killed. Used by the
 * loop; outlets_numbers by any thread.
 */
#ifndef AGENT_PUSH_OUTLETS_H
#define AGENT_PUSH_OUTLETS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/agent_settings.h"
#include "agent/push/baseline.h"
#include "agent/metrics.h"
#include "agent/processes.h"
#include "agent/reading/reading.h"
#include "util/error.h"

struct outlets;

/* NULL with the error set. *ret stays NULL, which is fine below, if the settings name none. Starts the sender's thread. */
int outlets_open(const struct agent_settings *settings, struct outlets **ret, struct error *error);
void outlets_close(struct outlets *outlets);

/* What was sent of the process: a descriptor at its rows, or -1 and an empty head. */
int outlets_baseline(const struct outlets *outlets, const struct agent_process *process,
		     struct baseline_head *ret);
/* Commits a profile and the next baseline together. On failure, which is counted, the next profile includes what this one had. */
int outlets_send(struct outlets *outlets, const struct agent_process *process,
		 const struct reading_parts *parts, struct baseline_head baseline,
		 struct error *error);
/* Whether recordings of killed processes are wanted; saves one, and removes the file that the process left. */
bool outlets_keeps(const struct outlets *outlets);
int outlets_keep(struct outlets *outlets, const struct agent_process *process,
		 const struct reading_parts *parts, struct error *error);
/* Whether files with symbols are wanted; offers those of a reading, at most one new one, since copying takes time. */
bool outlets_wants_modules(const struct outlets *outlets);
void outlets_offer_modules(struct outlets *outlets, const struct agent_process *process,
			   const struct reading_parts *parts);
/* Forgets the baselines of processes that are in no table any more. */
void outlets_sweep(struct outlets *outlets, const struct processes *processes);

/* Returns how many were written; outlets may be NULL. */
size_t outlets_numbers(struct outlets *outlets, struct metrics_own *own, size_t room);

#endif
