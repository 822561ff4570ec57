/* SPDX-License-Identifier: Apache-2.0 */
/* The container of a process: its name, and the location of its files. */
#ifndef COLLECT_KERNEL_CONTAINER_H
#define COLLECT_KERNEL_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

/* Its host name if it has its own (a pod's name, a container's id), else the id in the name of its control group, else "?".
 * NULL if it is in no container, or out of memory. malloc'd. */
char *container_name(pid_t pid);
/* The same without looking at its files, which may not answer (mapped_file.h): the host name is what the process says. */
char *container_name_of(pid_t pid, const char *host);

/* Whether it has our root, mounts, processes and users: it is in no container, or in ours. False if it may not be asked. */
bool container_is_ours(pid_t pid);

/* "/proc/PID/root" if the process has another root or mount namespace, else NULL. malloc'd. */
char *container_root(pid_t pid);

/* Opens a regular file for reading, by the path that the process sees. -1 with errno set; needs Linux 5.6. */
int container_open(pid_t pid, const char *path);

/* The container's id in the lines of /proc/PID/cgroup: the first 12 digits of the id used by docker, containerd, cri-o and
 * podman, or the name given by lxc and systemd-nspawn. malloc'd; NULL if there is none. Pure. */
char *container_in_groups(const char *groups);

#endif
