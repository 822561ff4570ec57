/* SPDX-License-Identifier: Apache-2.0 */
/* Starts recording with a mapped, empty profile; again in a forked child. */
#ifndef RECORDER_PROCESS_STARTUP_H
#define RECORDER_PROCESS_STARTUP_H

#include <stdbool.h>

/* Creates the profile's memory and initializes everything in it. False: stay off. Once per process; single caller. */
bool start_recording(bool forked);

/* Call if nothing will be recorded in this process. */
void start_failed(void);

/* The process was forked: blocks it does not know are its parent's. */
extern bool start_was_forked;
#endif
