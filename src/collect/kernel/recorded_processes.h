/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes of this machine are recorded, and where their profiles lie in their memory. /proc/PID/maps says so; the
 * right to read that is asked of the kernel, and what it denies is counted, so that nothing is hidden silently. */
#ifndef COLLECT_KERNEL_RECORDED_PROCESSES_H
#define COLLECT_KERNEL_RECORDED_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "util/error.h"
#include "util/vector.h"

enum { RECORDED_PATH = 400 };

struct recorded {
	pid_t pid;
	uint64_t profile, profile_end; /* the mapping that begins with its head */
	char file
		[RECORDED_PATH]; /* that the profile is kept in, by the process' name for it; "" = none */
};

/* -1 with the error set: there is no such process, it is not recorded, or it may not be read. */
int recorded_find(pid_t pid, struct recorded *ret, struct error *error);

struct recorded_list {
	VECTOR(struct recorded) found; /* by pid */
	size_t hidden;		       /* processes that may not be read */
};
/* All that can be seen, but for this process itself. -1 with the error set if there is no /proc. */
int recorded_list(struct recorded_list *ret, struct error *error);
void recorded_list_release(struct recorded_list *list);

/* Whether that process has this file mapped as its profile. */
bool recorded_maps(pid_t pid, const struct stat *file);
/* The process that has this file mapped as its profile; 0 if none does that may be read. */
pid_t recorded_by(const struct stat *file);

/* Whether a mapping of that name, up to the line's end, is a file in which a process without a collector keeps its profile.
 * Pure. */
bool recorded_file_name(const char *name);

/* Why a process could not be read, from the errno of the attempt. Returns -1. */
int recorded_failed(pid_t pid, int number, struct error *error);

#endif
