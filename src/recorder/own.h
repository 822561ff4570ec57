/* SPDX-License-Identifier: Apache-2.0 */
/* A profile of the process' own, where there is no collector: a file on a tmpfs in the folder that HEAPGAUGE_DIR names,
 * so that it stays when the process is killed, else memory that goes with it. And its clock. */
#ifndef RECORDER_OWN_H
#define RECORDER_OWN_H

#include <stdbool.h>

#include "recorder/slot.h"

/* Makes, maps and opens it. False: stay off. Once per process, single caller; `forked` as in start_recording. */
bool own_make(bool forked);

/* Turns the dial in its control page; an unknown mode: as the environment says. False: the page is a collector's. */
bool own_turn(uint32_t mode);

/* It could not be used after all. Before its memory is released. */
void own_give_up(void);

/* The process ends in good order: nobody will ask what it died of, and its file goes. Any thread; of a vfork's child it means
 * nothing. */
void own_end(void);

/* The same, if there is such a program: path is whatever the caller of exec gave, search as execvp does. */
void own_becomes(const char *path, bool search);

/* Whether this process keeps its own clock. */
extern HIDDEN bool own_clock;
void own_tick_slow(struct slot *slot);

/* Moves the clock, if it is ours to keep. From paths that are slow anyway: the others only look at it. */
static ALWAYS_INLINE void own_tick(struct slot *slot)
{
	if (UNLIKELY(own_clock))
		own_tick_slow(slot);
}
#endif
