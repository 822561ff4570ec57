/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the target starts or becomes. Our variables are not in the target's environment; they are added to what
 * a started program gets, if it can be recorded and is to be. */
#ifndef RECORDER_PROCESS_EXEC_H
#define RECORDER_PROCESS_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "format/live/live_handover.h"
#include "format/missed.h"
#include "recorder/slot.h"

/* The program's environment at start-up, also before libc has been initialised. Never NULL, where `environ` is after
 * clearenv. */
char **exec_environ(void);

/* A variable of it; "" if it is not set. */
const char *exec_variable(const char *name);

/* The settings of the collector, as live_settings_read reads them, hidden or not; NULL: there is none. */
const char *exec_handover(void);

/* Whether the environment says that nothing is to be recorded. At start-up. */
bool exec_is_disabled(void);

/* Takes our variables out of the environment. Once, at start-up, before anything else can have kept a copy. */
void exec_hide(void);

/* A program that is about to be started. */
struct exec_start {
	char *const *
		envp; /* what to give it: its own, or a copy with our variables that stays valid until the slot's next call */
	uint32_t number; /* of its announcement; 0 = none */
};

/* path: the program's file; NULL = unknown. With search, it is looked up as execvp does. becomes: the caller itself turns
 * into it. envp: NULL = empty. slot: NULL in a fork's child that has no profile and, becoming another program, needs none. */
struct exec_start exec_begin(struct slot *slot, const char *path, bool search, bool becomes,
			     char *const *envp);

/* Announces a program that is not given the recorder, if it would be followed; see process_log_publish. */
uint32_t exec_announce(enum missed_reason reason, const char *path, bool becomes);

/* What announced this program; all 0 = nothing. Once, before exec_hide. */
struct live_ticket exec_take_ticket(void);

/* Room for the arguments of a program, apart from the environment's; NULL: none. */
char **exec_arguments(struct slot *slot, size_t bytes);
#endif
