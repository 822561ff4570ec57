/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running process that is read repeatedly in order to display it, with its data over the time it was watched. Read-only. One
 * thread at a time.
 */
#ifndef COLLECT_ATTACH_WATCH_H
#define COLLECT_ATTACH_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/recording/recording.h"
#include "util/error.h"

struct watch;
/* NULL with the error set: the process does not exist, is not recorded, or may not be read. */
struct watch *watch_new(pid_t pid, struct error *error);
void watch_free(struct watch *watch);

/* Returns a recording of its present state. If it has ended, sets *ret_ended and returns the last state; nothing can be read
 * afterwards. -1 with the error set: it cannot be read now. */
int watch_take(struct watch *watch, const char *version, struct recording *ret, bool *ret_ended,
	       struct error *error);

#endif
