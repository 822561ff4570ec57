/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of /proc. No state; nothing is allocated but the texts that are returned, so that what runs on ticks (RSS)
 * costs one system call. The collector's only thread.
 */
#include "collect/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { COMMAND_LIMIT_BYTES = 4 << 20 };

char *procfs_command(pid_t pid)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	if (file_read(path, COMMAND_LIMIT_BYTES, &text, NULL) < 0)
		buffer_clear(&text);
	while (text.size > 0 && text.data[text.size - 1] == '\0')
		text.size--;
	for (size_t i = 0; i < text.size; i++) {
		if (text.data[i] == '\0')
			text.data[i] = ' ';
	}
	return buffer_take_string(&text);
}

char *procfs_exe(pid_t pid)
{
	char path[64], target[4096];
	ssize_t length;

	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	length = readlink(path, target, sizeof target);
	return strndup(target, length > 0 ? (size_t)length : 0);
}

/* One read of a small file; the text is terminated. Returns its length, 0 if it could not be read. */
static size_t read_small(const char *path, char *text, size_t room)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

pid_t procfs_parent(pid_t pid)
{
	char path[64], text[512];
	const char *after;
	int parent = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (read_small(path, text, sizeof text) == 0)
		return 0;
	/* "pid (name) state ppid": the name may hold anything, also parentheses. */
	after = strrchr(text, ')');
	if (!after || strlen(after) < 4)
		return 0;
	parent = (int)strtol(after + 4, NULL, 10);
	return parent;
}

int procfs_statm_open(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t procfs_rss(int statm_fd)
{
	char text[128];
	ssize_t got = statm_fd < 0 ? -1 : pread(statm_fd, text, sizeof text - 1, 0);
	char *second;

	if (got <= 0)
		return 0;
	text[got] = '\0';
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

size_t procfs_thread_name(pid_t pid, pid_t tid, char name[16])
{
	char path[96], text[32];
	size_t length;

	snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	length = read_small(path, text, sizeof text);
	while (length > 0 && text[length - 1] == '\n')
		length--;
	length = length > 15 ? 15 : length;
	memset(name, 0, 16);
	memcpy(name, text, length);
	return length;
}
