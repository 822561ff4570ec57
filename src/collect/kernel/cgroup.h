/* SPDX-License-Identifier: Apache-2.0 */
/* The memory limit of a process: control groups of both versions. */
#ifndef COLLECT_KERNEL_CGROUP_H
#define COLLECT_KERNEL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The mount point of a memory controller. */
struct cgroup_mount {
	char *at;   /* NULL = not mounted */
	char *root; /* the group at the mount point */
};
struct cgroups {
	const char *prefix;		   /* prepended to every path: "" except in tests */
	struct cgroup_mount first, second; /* versions 1 and 2 */
};
/* Reads mountinfo. Without a memory controller all limits are unknown, which is not an error. */
void cgroups_init(struct cgroups *cgroups, const char *prefix);
void cgroups_release(struct cgroups *cgroups);

struct cgroup_memory {
	uint64_t limit_bytes; /* 0 = none */
	uint64_t usage_bytes; /* without file pages that the kernel can reclaim at once */
};
/* The tightest limit of the process' group and those of its ancestors that can be seen; all zero if there is none. */
struct cgroup_memory cgroups_memory(const struct cgroups *cgroups, pid_t pid);

/* The share of time in which some, or all, tasks stalled on memory, as averaged by the kernel, in hundredths of a percent. */
struct pressure {
	uint64_t some_10s, some_60s, some_300s, full_10s, full_60s, full_300s;
	bool known;    /* else the kernel has no PSI */
	bool of_group; /* else of the machine */
};
/* The pressure of the process' version 2 group, even if version 1 has the memory controller; otherwise, or for pid 0, of the
 * machine. */
struct pressure cgroups_pressure(const struct cgroups *cgroups, pid_t pid);
/* The pressure of the group with that path. */
struct pressure cgroups_pressure_in(const struct cgroups *cgroups, const char *group);
/* Parses a file such as /proc/pressure/memory. Pure. */
struct pressure pressure_parse(const char *text);

/* The number of OOM kills in the group with that path, without those in groups below it; UINT64_MAX if the group no longer exists
 * or does not report it. */
uint64_t cgroups_oom_kills(const struct cgroups *cgroups, const char *group);

#endif
