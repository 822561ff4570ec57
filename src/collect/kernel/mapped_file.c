/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/map_files has a link for each mapping. O_PATH follows it without opening the file, and statx may be told not to ask
 * the file system. The descriptor keeps the file system mounted, so that its device number cannot become another's between the
 * check and the use. No state but the device of memfds, which never changes. Any thread.
 */
#include "collect/kernel/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "collect/kernel/procfs.h"
#include "util/cleanup.h"
#include "util/files.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dev_t
	memory_device; /* of memfds and shared anonymous memory: a tmpfs that is mounted nowhere */

static void find_memory_device(void)
{
	AUTO_CLOSE int fd = memfd_create("heapgauge", MFD_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0)
		memory_device = st.st_dev;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": paths have no spaces, which are written as \040. */
bool mapped_file_lists_tmpfs(const char *mounts, dev_t device)
{
	char wanted[32];

	snprintf(wanted, sizeof wanted, " %u:%u ", major(device), minor(device));
	for (const char *line = mounts; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *type = strstr(line, " - ");
		const char *parent = memchr(line, ' ', (size_t)(end - line));
		const char *number =
			parent ? memchr(parent + 1, ' ', (size_t)(end - parent - 1)) : NULL;

		if (number && type && type < end && strncmp(number, wanted, strlen(wanted)) == 0 &&
		    strncmp(type, " - tmpfs ", strlen(" - tmpfs ")) == 0)
			return true;
		line = *end ? end + 1 : end;
	}
	return false;
}

/* Its mounts, and those of its parent and ours: a process that has changed its root does not see where its profile is. */
static bool is_tmpfs(pid_t pid, dev_t device)
{
	const pid_t sees[] = { pid, procfs_parent(pid), getpid() };

	pthread_once(&once, find_memory_device);
	if (memory_device && device == memory_device)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(sees); i++) {
		AUTO_FREE char *mounts = procfs_file(sees[i], "mountinfo", NULL);

		if (mounts && mapped_file_lists_tmpfs(mounts, device))
			return true;
	}
	return false;
}

struct link {
	char path[96];
};

static struct link link_of(pid_t pid, uint64_t start, uint64_t end)
{
	struct link link;

	snprintf(link.path, sizeof link.path, "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)start, (unsigned long long)end);
	return link;
}

int mapped_file_open(pid_t pid, uint64_t start, uint64_t end)
{
	AUTO_CLOSE int pinned = open(link_of(pid, start, end).path, O_PATH | O_CLOEXEC);
	struct statx st;
	char path[64];

	if (pinned < 0 || statx(pinned, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) < 0)
		return -1;
	if (!is_tmpfs(pid, makedev(st.stx_dev_major, st.stx_dev_minor))) {
		errno = ENOTSUP;
		return -1;
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", pinned);
	return file_open_regular(path, NULL, NULL);
}

enum mapped_file_match mapped_file_match(pid_t pid, uint64_t start, uint64_t end, dev_t device,
					 ino_t inode)
{
	struct statx st;

	if (statx(AT_FDCWD, link_of(pid, start, end).path, AT_STATX_DONT_SYNC, STATX_INO, &st) < 0)
		return errno == EPERM || errno == EACCES ? MAPPED_FILE_UNKNOWN : MAPPED_FILE_OTHER;
	return st.stx_ino == inode && makedev(st.stx_dev_major, st.stx_dev_minor) == device
		       ? MAPPED_FILE_SAME
		       : MAPPED_FILE_OTHER;
}
