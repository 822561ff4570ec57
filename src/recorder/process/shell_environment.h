/* SPDX-License-Identifier: Apache-2.0 */
/* Our variables in `environ` while libc starts a shell: system and popen pass it to the shell themselves. */
#ifndef RECORDER_PROCESS_SHELL_ENVIRONMENT_H
#define RECORDER_PROCESS_SHELL_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

/* A shell that is about to be started. */
struct shell_start {
	uint32_t number; /* of its log entry; 0 = none */
	bool extended;	 /* `environ` has our variables, until shell_environment_end */
};

/* Any thread, also in a forked child that has no profile. */
struct shell_start shell_environment_begin(void);

/* After the call. */
void shell_environment_end(struct shell_start start);

/* In a forked child, by its only thread: the threads that were starting shells are not in it. */
void shell_environment_forked(void);

/* True for the entries that shell_environment_begin adds, by their address. */
bool shell_environment_has(const char *entry);
#endif
