/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the live profile of a running process from outside, with or without its collector. Requires permission to ptrace it;
 * neither stops it nor writes to it.
 */
#ifndef COLLECT_ATTACH_INSPECT_H
#define COLLECT_ATTACH_INSPECT_H

#include <sys/types.h>

#include "collect/profile/profile_copy.h"
#include "format/recording/recording.h"
#include "util/error.h"

/* A recording of the present state of one process. -1 with error set: the process does not exist, is not recorded, or may not
 * be read. reads_pages: also reads its pages (collect/process/pages.h); fails if they cannot be known. */
int inspect_process(pid_t pid, bool reads_pages, const char *version, struct recording *ret,
		    struct error *error);

/* The self-description of a process without a collector. */
struct inspect_leftover {
	struct live_own own;
	uint64_t started_mono_ns;
};
/* The same for a file in which such a process keeps, or has left, its profile. ret_left may be NULL. The error message refers
 * to the file as "it". */
int inspect_file(const char *path, const char *version, struct recording *ret,
		 struct inspect_leftover *ret_left, struct error *error);

/* The same for a core file of a process that was recorded with --core. */
int inspect_core(const char *path, const char *version, struct recording *ret, struct error *error);
/* Its two steps: the copy, and the recording that is made of it. */
int inspect_core_copy(struct profile_copy *copied, const struct core_file *core,
		      struct recorded *ret_recorded, struct error *error);
int inspect_core_copied(const struct profile_copy *copied, const char *version,
			struct recording *ret, struct error *error);

/* The CLOCK_REALTIME at which such a process was last active; 0 if unknown. Reads little of the file. */
uint64_t inspect_file_seen(const char *path);

/* Fills in the run of a recording of that single process. */
int inspect_run(const struct profile_copy *copied, const struct process_row *process,
		const char *version, struct run_row *run, struct error *error);

/* The same for a profile that was already found; can be repeated: `copied` keeps its memory. Returns the result of
 * profile_copy_take. */
int inspect_recorded(struct profile_copy *copied, const struct recorded *recorded,
		     enum profile_copy_parts parts, const char *version, struct recording *ret,
		     struct error *error);

/* The same for a copy that was taken already; `parts` as it was taken, and whether the process still runs. */
int inspect_copied(const struct profile_copy *copied, enum profile_copy_parts parts, bool running,
		   const char *version, struct recording *ret, struct error *error);

#endif
