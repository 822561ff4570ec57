/* SPDX-License-Identifier: Apache-2.0 */
/* One file per process, KEY.baseline. No state. */
#include "agent/push/baseline.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"

#define SUFFIX ".baseline"
static const char magic[8] = "HGBASE1\n";

int baseline_prepare(const char *folder, struct error *error)
{
	return mkdir(folder, 0700) == 0 || errno == EEXIST
		       ? 0
		       : error_errno(error, "cannot create %s", folder);
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
	return file_write_atomic(path, buffer_span(&bytes), 0600, error);
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

		if (length <= suffix || length >= sizeof key ||
		    strcmp(entry->d_name + length - suffix, SUFFIX) != 0)
			continue;
		memcpy(key, entry->d_name, length - suffix);
		key[length - suffix] = '\0';
		if (!is_wanted(context, key))
			baseline_remove(folder, key);
	}
}
