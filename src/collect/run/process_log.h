/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who was announced to begin, and who of them was never heard from. A recorder announces in its profile every program
 * that it starts or becomes and every child it has; what says hello afterwards brings the announcement's ticket along.
 * What does not was missed, and is reported with the recording.
 */
#ifndef COLLECT_RUN_PROCESS_LOG_H
#define COLLECT_RUN_PROCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/process/target.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* Announced, and not heard from yet. */
struct start {
	struct live_ticket ticket;
	enum missed_reason reason; /* if it never is */
	bool becomes;		   /* the announcing process itself turns into it */
	char *path;
};

struct process_log {
	VECTOR(struct start) pending;	  /* by the order of being read */
	VECTOR(struct missed_row) missed; /* each reason and path once */
	VECTOR(struct live_ticket) early; /* heard from before their announcer was */
	uint64_t unnamed; /* announced faster than they could be read, and not heard from */
};
void process_log_release(struct process_log *log);

/* Reads what a target has announced since. Cheap if there is nothing: for every tick. */
void process_log_read(struct process_log *log, struct target *target);

/* The same, and what it has taken back; over: it will not take back anything any more. */
void process_log_update(struct process_log *log, struct target *target, bool over);

/* Somebody said hello with this ticket; all 0 = without one. Those of its announcer are to have been read. Returns whether it is
 * what the announcer has become. */
bool process_log_heard(struct process_log *log, struct live_ticket ticket);

/* The same, of an announcer that has not handed over itself yet: its file may be found later than its child's. */
void process_log_heard_early(struct process_log *log, struct live_ticket ticket);

/* Whether the target has announced to become another program, and this program was not heard from. */
bool process_log_becomes(const struct process_log *log, const struct target *target);

/* A process was missed for a reason that only we know. path may be NULL. */
void process_log_miss(struct process_log *log, enum missed_reason reason, const char *path);

/* The run is over: whoever was not heard from by now was missed. The rows go to `run`. */
void process_log_finish(struct process_log *log, struct run_row *run);

#endif
