/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the profile. The process always makes it itself: a sealed memfd that it hands over to its collector; or a file on
 * a tmpfs, so that it stays when the process is killed; or memory that goes with it. */
#ifndef RECORDER_PROCESS_PROFILE_H
#define RECORDER_PROCESS_PROFILE_H

#include <stdbool.h>

#include "format/live/live.h"

/* Makes and maps an empty one, and hands it over if there is a collector. False: stay off. Once per process, single caller.
 * forked: the settings are those of the parent. */
bool profile_make(bool forked, struct live_ticket ticket);

/* It could not be used after all. Before its memory is released. */
void profile_give_up(void);

/* The process exits normally: no one needs its file, which is removed. Any thread; of a vfork's child it means
 * nothing. */
void profile_end(void);

/* The same, if there is such a program: path is whatever the caller of exec gave, search as execvp does. */
void profile_becomes(const char *path, bool search);
#endif
