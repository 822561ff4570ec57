/* SPDX-License-Identifier: Apache-2.0 */
/* Data about processes from /proc. A process may end at any time: then a text is empty and a number is 0. */
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
/* The next process in an open /proc; 0: there is none. folder may be NULL. */
pid_t procfs_next(DIR *folder);

/* The content of /proc/PID/NAME, terminated. malloc'd; NULL if it cannot be read. ret_bytes may be NULL. */
char *procfs_file(pid_t pid, const char *name, size_t *ret_bytes);

/* The same for any file of the kernel. */
char *procfs_text(const char *path);

/* Reads a small file in one call; the text is terminated. Returns its length, 0 if it could not be read. */
size_t procfs_small(const char *path, char *text, size_t room);
/* Memory of the machine, from /proc/meminfo; 0 = unknown. */
struct procfs_system {
	uint64_t total_bytes, available_bytes /* without swapping */, cached_bytes, swapped_bytes;
};
struct procfs_system procfs_system(void);
/* Memory available without swapping (MemAvailable); 0 = unknown. */
uint64_t procfs_free_memory(void);

/* argv joined by spaces. malloc'd, never NULL unless out of memory. */
char *procfs_command(pid_t pid);
/* Path of the executable. malloc'd, never NULL unless out of memory. */
char *procfs_exe(pid_t pid);
/* Whether its executable is the same file as `file`. */
bool procfs_exe_is(pid_t pid, const struct stat *file);
pid_t procfs_parent(pid_t pid);
/* A number of /proc/PID/stat behind the state, which is field 3 (proc(5)). UINT64_MAX if it has ended. */
uint64_t procfs_stat_field(pid_t pid, int field);
/* When it started, in clock ticks since boot: with its pid, which process it is. UINT64_MAX if it has ended. */
uint64_t procfs_started_ticks(pid_t pid);
/* Whether it certainly started after that CLOCK_MONOTONIC time, or has ended. */
bool procfs_started_after(pid_t pid, uint64_t mono_ns);
/* 1 + its effective uid; 0 if it has ended. */
uint32_t procfs_user(pid_t pid);

/* The least of what it may do: of its real, effective and saved ids those that are not root's. */
struct procfs_owner {
	uint32_t uid, gid;
	uint64_t capabilities; /* permitted, a bit for each */
};
/* False if it has ended. */
bool procfs_owner(pid_t pid, struct procfs_owner *ret);
/* Its pid in its own namespace. 0 if it has ended. */
pid_t procfs_own_pid(pid_t pid);
/* The inode of its pid namespace. 0 if it has ended or may not be read. */
uint64_t procfs_pid_namespace(pid_t pid);
/* The wait(2) status of a process that its parent has not waited for yet. False if it is not available. */
bool procfs_zombie_status(pid_t pid, int *ret_status);

/* All 0: unknown. */
struct procfs_statm {
	uint64_t vm_bytes, rss_bytes; /* address space; resident */
	uint64_t file_bytes;	      /* of rss_bytes, of files and shared memory */
};

/* Opens a descriptor for the two below, or returns -1. */
int procfs_statm_open(pid_t pid);
struct procfs_statm procfs_statm(int statm_fd);
uint64_t procfs_rss(int statm_fd);
/* The most that was ever resident (VmHWM). */
uint64_t procfs_peak_rss(pid_t pid);

/* The stack pointer of a thread that is in a system call. 0: it is running, has ended, or may not be asked: needs the right to ptrace. */
uint64_t procfs_stack_pointer(pid_t pid, pid_t tid);
/* Name of a thread. Returns its length, 0 if there is none. */
size_t procfs_thread_name(pid_t pid, pid_t tid, char name[16]);

#endif
