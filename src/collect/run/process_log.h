/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announced processes, and those of them that never connected. A recorder announces in its profile every fork and every program
 * that it starts or execs; the new process sends the announcement's ticket in its hello. A process that does not connect was
 * missed, and is reported with the recording.
 */
#ifndef COLLECT_RUN_PROCESS_LOG_H
#define COLLECT_RUN_PROCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/process/target.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* Announced, and not connected yet. */
struct start {
	struct live_ticket ticket;
	enum missed_reason reason; /* if it never connects */
	bool becomes;		   /* the announcing process itself execs it */
	char *path;
};

struct process_log {
	VECTOR(struct start) pending;	  /* in the order in which they were read */
	VECTOR(struct missed_row) missed; /* one row for each reason and path */
	VECTOR(struct live_ticket) early; /* connected before their announcer */
	uint64_t unnamed; /* overwritten before they could be read, and not connected */
};
void process_log_release(struct process_log *log);

/* Reads the target's new announcements. Cheap if there are none; called on every tick. */
void process_log_read(struct process_log *log, struct target *target);

/* Like process_log_read, and also drops cancelled announcements; over: the target can cancel no more. */
void process_log_update(struct process_log *log, struct target *target, bool over);

/* A process connected with this ticket; all 0 = without one. The announcer's entries must have been read before. Returns
 * whether the announcer became this process by exec. */
bool process_log_connected(struct process_log *log, struct live_ticket ticket);

/* For an announcer that has not handed over yet: its file may be found later than its child's. */
void process_log_connected_early(struct process_log *log, struct live_ticket ticket);

/* Whether the target has announced an exec, and the new program has not connected. */
bool process_log_becomes(const struct process_log *log, const struct target *target);

/* Counts a process that was missed for a reason that only the collector knows. path may be NULL. */
void process_log_miss(struct process_log *log, enum missed_reason reason, const char *path);

/* At the end of the run: everything still pending was missed. `run` takes over the rows. */
void process_log_finish(struct process_log *log, struct run_row *run);

#endif
