/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the profile. The process always creates it itself: a sealed memfd that it hands over to its collector; or a file
 * on a tmpfs, which survives if the process is killed; or memory that ends with it. */
#ifndef RECORDER_PROCESS_PROFILE_H
#define RECORDER_PROCESS_PROFILE_H

#include <stdbool.h>

#include "format/live/live.h"

/* Creates and maps an empty profile, and hands it over if there is a collector. False: stay off. Once per process, single caller.
 * forked: use the parent's settings. */
bool profile_make(bool forked, struct live_ticket ticket);

/* Call if the profile cannot be used after all, before its memory is released. */
void profile_give_up(void);

/* Call when nobody needs the file any more: it is removed. Any thread; a no-op in a vfork child. */
void profile_end(void);
/* The same on a normal exit, after the report that was asked for. */
void profile_exit(void);

/* profile_end before an exec, if the program exists: path is what the caller of exec passed, search as in execvp. */
void profile_becomes(const char *path, bool search);
#endif
