/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells about a process. A process may be gone at any moment: then a text is empty and a number 0. */
#ifndef COLLECT_PROCFS_H
#define COLLECT_PROCFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* argv joined by spaces. malloc'd, never NULL unless out of memory. */
char *procfs_command(pid_t pid);
/* Path of the executable. malloc'd, never NULL unless out of memory. */
char *procfs_exe(pid_t pid);
pid_t procfs_parent(pid_t pid);

/* A descriptor for procfs_rss, or -1. */
int procfs_statm_open(pid_t pid);
uint64_t procfs_rss(int statm_fd);

/* Name of a thread. Returns its length, 0 if there is none. */
size_t procfs_thread_name(pid_t pid, pid_t tid, char name[16]);

#endif
