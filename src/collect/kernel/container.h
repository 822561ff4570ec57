/* SPDX-License-Identifier: Apache-2.0 */
/* The container that a process lives in: what it is called, and where its files are. */
#ifndef COLLECT_KERNEL_CONTAINER_H
#define COLLECT_KERNEL_CONTAINER_H

#include <sys/types.h>

/* Its host name where that is its own (a pod's name, a container's id), else the id that its control group is named after,
 * else "?". NULL if it lives in none, or out of memory. malloc'd. */
char *container_name(pid_t pid);

/* "/proc/PID/root" if the process sees other files than we do, else NULL. malloc'd. */
char *container_root(pid_t pid);

/* Opens a regular file for reading, by the path that the process knows it by. -1 with errno set; needs Linux 5.6. */
int container_open(pid_t pid, const char *path);

/* The id in the lines of /proc/PID/cgroup: 12 digits of what docker, containerd, cri-o and podman name a group after, or the
 * name that lxc and systemd-nspawn give it. malloc'd; NULL if there is none. Pure. */
char *container_in_groups(const char *groups);

#endif
