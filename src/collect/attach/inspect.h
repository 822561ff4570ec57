/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the live profile of a running process from outside, with or without its collector. Needs the right to ptrace
 * it; does not stop it, does not write to it.
 */
#ifndef COLLECT_ATTACH_INSPECT_H
#define COLLECT_ATTACH_INSPECT_H

#include <sys/types.h>

#include "collect/profile/profile_copy.h"
#include "format/recording/recording.h"
#include "util/error.h"

/* A recording of one process as it is now. -1 with error set: there is no such process, it is not recorded, or it may
 * not be read. */
int inspect_process(pid_t pid, const char *version, struct recording *ret, struct error *error);

/* What a process without a collector said of itself. */
struct inspect_left {
	struct live_own own;
	uint64_t started_mono_ns;
};
/* The same of a file in which such a process keeps, or has left, its profile. ret_left may be NULL. The error is about
 * "it". */
int inspect_file(const char *path, const char *version, struct recording *ret,
		 struct inspect_left *ret_left, struct error *error);

/* When such a process was last seen, as CLOCK_REALTIME; 0 if the file does not tell. Reads little of it. */
uint64_t inspect_file_seen(const char *path);

/* What a recording of that process alone says of the run. */
int inspect_run(const struct profile_copy *copied, const struct process_row *process,
		const char *version, struct run_row *run, struct error *error);

/* The same of a profile whose recorded is known, as often as one likes: `copied` keeps the room for it. Returns what
 * profile_copy_take does. */
int inspect_recorded(struct profile_copy *copied, const struct recorded *recorded,
		     enum profile_copy_parts parts, const char *version, struct recording *ret,
		     struct error *error);

#endif
