/* SPDX-License-Identifier: Apache-2.0 */
/* From nothing to a mapped, empty profile; and again in a fork's child. */
#ifndef RECORDER_PROCESS_STARTUP_H
#define RECORDER_PROCESS_STARTUP_H

#include <stdbool.h>

/* Asks the collector for memory and lays everything out in it. False: stay off. Once per process; single caller. */
bool start_recording(bool forked);

/* Nothing will be recorded in this process. */
void start_failed(void);

/* The process began by fork: blocks it does not know are its parent's. */
extern bool start_was_forked;
#endif
