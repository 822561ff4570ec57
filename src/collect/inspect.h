/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the live profile of a running process from outside, with or without its collector. Needs the right to ptrace
 * it; does not stop it, does not write to it.
 */
#ifndef COLLECT_INSPECT_H
#define COLLECT_INSPECT_H

#include <sys/types.h>

#include "collect/copied.h"
#include "format/recording.h"
#include "util/error.h"

/* A recording of one process as it is now. -1 with error set: there is no such process, it is not recorded, or it may
 * not be read. */
int inspect_process(pid_t pid, const char *version, struct recording *ret, struct error *error);

/* The same of a profile whose recorded is known, as often as one likes: `copied` keeps the room for it. Returns what
 * copied_take does. */
int inspect_recorded(struct copied *copied, const struct recorded *recorded,
		     enum copied_parts parts, const char *version, struct recording *ret,
		     struct error *error);

#endif
