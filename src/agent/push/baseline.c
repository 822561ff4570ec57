/* SPDX-License-Identifier: Apache-2.0 */
/* One file per process, KEY.baseline. No state. */
#include "agent/push/baseline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"

#define SUFFIX ".baseline"
static const char magic[8] = "HGBASE3\n";

static bool ends_in(const char *name, const char *suffix)
{
	size_t length = strlen(name), end = strlen(suffix);

	return length > end && strcmp(name + length - end, suffix) == 0;
}

/* Files that an agent was writing when it was killed. */
static void remove_unfinished(const char *folder)
{
	AUTO_CLOSE_FOLDER DIR *stream = opendir(folder);
	const struct dirent *entry;

	while (stream && (entry = readdir(stream)))
		if (ends_in(entry->d_name, ".tmp"))
			unlinkat(dirfd(stream), entry->d_name, 0);
}

int baseline_prepare(const char *folder, struct error *error)
{
	AUTO_CLOSE int fd = -1;

	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return error_errno(error, "cannot create %s", folder);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(error, "cannot open %s", folder);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? error_set(error, "%s is in use by another agent", folder)
			       : error_errno(error, "cannot lock %s", folder);
	remove_unfinished(folder);
	return TAKE_FD(fd);
}

static char *path_of(const char *folder, const char *key)
{
	char *path;

	return asprintf(&path, "%s/%s" SUFFIX, folder, key) < 0 ? NULL : path;
}

int baseline_open(const char *folder, const char *key, struct baseline_head *ret)
{
	AUTO_FREE char *path = path_of(folder, key);
	AUTO_CLOSE int fd = path ? file_open_regular(path, NULL, NULL) : -1;

	if (fd < 0 || read(fd, ret, sizeof *ret) != (ssize_t)sizeof *ret ||
	    memcmp(ret->magic, magic, sizeof magic) != 0)
		return -1;
	return TAKE_FD(fd);
}

int baseline_write(const char *folder, const char *key, struct baseline_head head, struct span rows,
		   struct error *error)
{
	AUTO(buffer_release) struct buffer bytes = BUFFER_INIT;
	AUTO_FREE char *path = path_of(folder, key);

	memcpy(head.magic, magic, sizeof magic);
	buffer_append(&bytes, &head, sizeof head);
	buffer_append(&bytes, rows.data, rows.size);
	if (!path || bytes.failed)
		return error_set(error, "out of memory");
	return output_file_write_unsynced(path, buffer_span(&bytes), 0600, error);
}

void baseline_remove(const char *folder, const char *key)
{
	AUTO_FREE char *path = path_of(folder, key);

	if (path)
		unlink(path);
}

void baseline_sweep(const char *folder, baseline_is_wanted *is_wanted, void *context)
{
	AUTO_CLOSE_FOLDER DIR *stream = opendir(folder);
	const struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		size_t length = strlen(entry->d_name), suffix = sizeof SUFFIX - 1;
		char key[256];

		if (length >= sizeof key || !ends_in(entry->d_name, SUFFIX))
			continue;
		memcpy(key, entry->d_name, length - suffix);
		key[length - suffix] = '\0';
		if (!is_wanted(context, key))
			baseline_remove(folder, key);
	}
}
