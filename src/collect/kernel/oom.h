/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's log says about processes that it killed for want of memory. */
#ifndef COLLECT_KERNEL_OOM_H
#define COLLECT_KERNEL_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/vector.h"

struct oom_kill {
	uint64_t at_ns; /* since boot, about CLOCK_MONOTONIC */
	pid_t pid;	/* as the kernel counts */
	char name[16];	/* of the thread that was chosen */
	bool in_group;	/* for the limit of a control group; else of the machine */
};

struct oom_log {
	VECTOR(struct oom_kill) kills; /* by time */
	bool readable;
};
/* Reads /dev/kmsg, as far back as the kernel remembers. What may not be read is no error: `readable` is false then. */
void oom_log_read(struct oom_log *log);
void oom_log_release(struct oom_log *log);

/* A process that is gone: what it knew of itself. Times are CLOCK_MONOTONIC. */
struct oom_victim {
	pid_t pid; /* as it saw itself */
	const char *name;
	uint64_t started_ns, seen_ns; /* it may have lived on after it was last seen */
};
/* The kill that ended it; NULL: none in the log can have been it. */
const struct oom_kill *oom_log_find(const struct oom_log *log, const struct oom_victim *victim);

/* One record of /dev/kmsg: "6,339,5140900,-;text". False if it reports no kill. Pure. */
bool oom_parse(const char *record, struct oom_kill *ret);

#endif
