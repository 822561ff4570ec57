/* SPDX-License-Identifier: Apache-2.0 */
/* OOM kills in the kernel's log. */
#ifndef COLLECT_KERNEL_OOM_H
#define COLLECT_KERNEL_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/vector.h"

struct oom_kill {
	uint64_t at_ns; /* since boot, roughly CLOCK_MONOTONIC */
	pid_t pid;	/* in the initial pid namespace */
	char name[16];	/* of the thread that was chosen */
	bool in_group;	/* for the limit of a control group; else of the machine */
};

struct oom_log {
	VECTOR(struct oom_kill) kills; /* by time */
	uint64_t since_ns; /* of the oldest record, since boot; UINT64_MAX: there is none */
	bool readable;
};
/* Reads /dev/kmsg, as far back as the kernel keeps it. Missing permission is not an error: `readable` is false then. */
void oom_log_read(struct oom_log *log);
void oom_log_release(struct oom_log *log);

/* A process that has ended, as it described itself. Times are CLOCK_MONOTONIC. */
struct oom_victim {
	pid_t pid;
	uint64_t pid_namespace; /* in which that is its number, as an inode; 0: unknown */
	const char *name;
	uint64_t started_ns, seen_ns; /* it may have lived longer than it was last seen */
};
/* The kill that ended it; NULL: no kill in the log matches. */
const struct oom_kill *oom_log_find(const struct oom_log *log, const struct oom_victim *victim);
/* Returns true if a log that does not name the victim proves that the OOM killer did not end it. Otherwise a higher count of its
 * control group may explain a SIGKILL. */
bool oom_log_is_complete(const struct oom_log *log, const struct oom_victim *victim);

/* Parses one record of /dev/kmsg: "6,339,5140900,-;text". False if it is not a kill. Pure. */
bool oom_parse(const char *record, struct oom_kill *ret);

#endif
