/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the target starts or execs. Our variables are not in the target's environment; they are added to that of a
 * started program, if it can be recorded and should be. */
#ifndef RECORDER_PROCESS_EXEC_H
#define RECORDER_PROCESS_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "format/live/live_handover.h"
#include "format/missed.h"
#include "recorder/slot.h"

/* The value of an environment variable; "" if not set. */
const char *exec_variable(const char *name);

/* The collector's settings in the form that live_settings_read reads, hidden or not; NULL: none. */
const char *exec_handover(void);

/* True if the environment disables recording. At start-up. */
bool exec_is_disabled(void);

/* Removes our variables from the environment. Once, at start-up, before anyone can have copied it. */
void exec_hide(void);

#define EXEC_PRELOAD "LD_PRELOAD="
#define EXEC_HANDOVER LIVE_ENV_HANDOVER "="

enum {
	EXEC_HANDOVER_BYTES =
		sizeof EXEC_HANDOVER - 1 + LIVE_TICKET_TEXT + 1 + LIVE_SETTINGS_TEXT + 1,
	EXEC_PRELOAD_BYTES = 8 << 10,
};

/* The two variables that load the recorder into a program. */
struct exec_variables {
	char handover[EXEC_HANDOVER_BYTES];
	char preload[EXEC_PRELOAD_BYTES];
};

/* A program that is about to be started. */
struct exec_start {
	char *const *
		envp; /* environment to pass: its own, or a copy with our variables, valid until the slot's next call */
	uint32_t number; /* of its log entry; 0 = none */
	bool recorded;	 /* our variables are in envp */
	void *copy;	 /* mapped; NULL: none */
	size_t copy_bytes;
};

/* path: the program's file; NULL = unknown. search: look it up in PATH as execvp does. becomes: the caller execs it. envp:
 * NULL = empty. slot: NULL in a forked child that has no profile and, about to exec, needs none. */
struct exec_start exec_begin(struct slot *slot, const char *path, bool search, bool becomes,
			     char *const *envp);

/* As exec_begin, for a program that does not get the recorder; see process_log_publish. */
struct exec_start exec_begin_unrecorded(enum missed_reason reason, const char *path, bool becomes,
					char *const *envp);

/* The program was started, or an exec has failed. */
void exec_end(const struct exec_start *start, bool failed);

/* As exec_begin, for the shell that libc starts with `environ`. True: ret is our variables for it, still without a ticket. False: ret_number
 * is its log entry. */
bool exec_begin_shell(struct exec_variables *ret, uint32_t *ret_number);

/* Logs a program that does not get the recorder, if it would be followed; see process_log_publish. */
uint32_t exec_announce(enum missed_reason reason, const char *path, bool becomes);

/* The ticket of the log entry that announced this program; all 0 = none. Once, before exec_hide. */
struct live_ticket exec_take_ticket(void);

/* Returns memory for a program's arguments, separate from its environment; NULL: none. */
char **exec_arguments(struct slot *slot, size_t bytes);
#endif
