/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells about a process. A process may be gone at any moment: then a text is empty and a number 0. */
#ifndef COLLECT_KERNEL_PROCFS_H
#define COLLECT_KERNEL_PROCFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* "/proc/PID/NAME" */
struct procfs_path {
	char text[96];
};
struct procfs_path procfs_path(pid_t pid, const char *name);
/* The next process of an open /proc; 0: there is none. folder may be NULL. */
pid_t procfs_next(DIR *folder);

/* The whole of /proc/PID/NAME, terminated. malloc'd; NULL if it cannot be read. ret_bytes may be NULL. */
char *procfs_file(pid_t pid, const char *name, size_t *ret_bytes);

/* The same of any file of the kernel's. */
char *procfs_text(const char *path);

/* One read of a small file; the text is terminated. Returns its length, 0 if it could not be read. */
size_t procfs_small(const char *path, char *text, size_t room);
/* What the machine could give without swapping; 0 = not known. */
uint64_t procfs_free_memory(void);

/* argv joined by spaces. malloc'd, never NULL unless out of memory. */
char *procfs_command(pid_t pid);
/* Path of the executable. malloc'd, never NULL unless out of memory. */
char *procfs_exe(pid_t pid);
/* Whether it runs the very file that `file` is. */
bool procfs_exe_is(pid_t pid, const struct stat *file);
pid_t procfs_parent(pid_t pid);
/* Whether it surely began after that moment of CLOCK_MONOTONIC, or is gone. */
bool procfs_started_after(pid_t pid, uint64_t mono_ns);
/* 1 + its effective user; 0 if it is gone. */
uint32_t procfs_user(pid_t pid);
/* Its number as it sees itself, which in a container is another one. 0 if it is gone. */
pid_t procfs_own_pid(pid_t pid);
/* How a process ended that its parent has not waited for yet, as wait(2) says it. False if it does not tell. */
bool procfs_zombie_status(pid_t pid, int *ret_status);

/* A descriptor for procfs_rss, or -1. */
int procfs_statm_open(pid_t pid);
uint64_t procfs_rss(int statm_fd);

/* Name of a thread. Returns its length, 0 if there is none. */
size_t procfs_thread_name(pid_t pid, pid_t tid, char name[16]);

#endif
