/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file behind a mapping of another process. A file system in user space (FUSE) belongs to whoever mounted it, and whoever
 * asks it for anything may wait for ever, in a state in which not even SIGKILL helps. So nothing is asked of a file before it
 * is known to be on a tmpfs, where the recorder keeps profiles.
 */
#ifndef COLLECT_KERNEL_MAPPED_FILE_H
#define COLLECT_KERNEL_MAPPED_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Opens for reading what the process has mapped at exactly these addresses. -1 with errno set: EPERM if only root may, ENOTSUP if
 * it is not on a tmpfs, ENOENT if nothing is mapped there. */
int mapped_file_open(pid_t pid, uint64_t start, uint64_t end);

enum mapped_file_match {
	MAPPED_FILE_SAME,
	MAPPED_FILE_OTHER,   /* or nothing is mapped there */
	MAPPED_FILE_UNKNOWN, /* only root may ask */
};
/* Whether that file is still mapped at these addresses. */
enum mapped_file_match mapped_file_match(pid_t pid, uint64_t start, uint64_t end, dev_t device,
					 ino_t inode);

/* Whether /proc/PID/mountinfo has a tmpfs with this device. Pure. */
bool mapped_file_lists_tmpfs(const char *mounts, dev_t device);

#endif
