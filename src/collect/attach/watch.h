/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running process, read again and again by who wants to show it, with what it was like over the time that it was watched.
 * It is only read. One thread at a time.
 */
#ifndef COLLECT_ATTACH_WATCH_H
#define COLLECT_ATTACH_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/recording/recording.h"
#include "util/error.h"

struct watch;
/* NULL with the error set: there is no such process, it is not recorded, or it may not be read. */
struct watch *watch_new(pid_t pid, struct error *error);
void watch_free(struct watch *watch);

/* Reads it: a recording of it as it is now. When it has ended *ret_ended is set, and it is its last state; then nothing more
 * can be read. -1 with the error set: not now. */
int watch_take(struct watch *watch, const char *version, struct recording *ret, bool *ret_ended,
	       struct error *error);

#endif
