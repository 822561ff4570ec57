/* SPDX-License-Identifier: Apache-2.0 */
/* The memory limit that a process runs under: control groups of both versions. */
#ifndef COLLECT_KERNEL_CGROUP_H
#define COLLECT_KERNEL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the memory controllers are mounted. */
struct cgroup_mount {
	char *at;   /* NULL = not mounted */
	char *root; /* the group that is seen there */
};
struct cgroups {
	const char *prefix;		   /* in front of every path: "" but in tests */
	struct cgroup_mount first, second; /* of version 1 and 2 */
};
/* Reads mountinfo. Without any memory controller all limits are unknown, which is no error. */
void cgroups_init(struct cgroups *cgroups, const char *prefix);
void cgroups_release(struct cgroups *cgroups);

struct cgroup_memory {
	uint64_t limit_bytes; /* 0 = none */
	uint64_t usage_bytes; /* without file pages that the kernel can drop at once */
};
/* The tightest of the process' group and those above it; all zero if there is no limit. */
struct cgroup_memory cgroups_memory(const struct cgroups *cgroups, pid_t pid);

/* How long some, or all, of the tasks had to wait for memory, as the kernel averages it: hundredths of a percent. */
struct pressure {
	uint64_t some_10s, some_60s, some_300s, full_10s, full_60s, full_300s;
	bool known;    /* else the kernel does not tell (PSI) */
	bool of_group; /* else of the machine */
};
/* Of the group of version 2 that the process is in, also where version 1 has the memory; else, or for pid 0, of the
 * machine. */
struct pressure cgroups_pressure(const struct cgroups *cgroups, pid_t pid);
/* Of the group of that path. */
struct pressure cgroups_pressure_in(const struct cgroups *cgroups, const char *group);
/* The text of a file such as /proc/pressure/memory. Pure. */
struct pressure pressure_parse(const char *text);

/* How often the OOM killer has killed in the group of that path; UINT64_MAX if there is no such group any more, or it does
 * not tell. */
uint64_t cgroups_oom_kills(const struct cgroups *cgroups, const char *group);

#endif
