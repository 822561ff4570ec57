/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process counts as in a container if its pid namespace is not ours, or its control group is named like a container's. A
 * mount namespace alone is no evidence: many services have one. No state. Any thread.
 */
#include "collect/kernel/container.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/openat2.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"

enum { ID_DIGITS = 64, ID_SHOWN = 12, HOST_MAX = 64 };

/* What is there now: its root may be on a file system that does not answer (mapped_file.h). */
static bool look(const char *path, struct statx *ret)
{
	return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, ret) == 0;
}

/* Whether both are in the same namespace or root; `unknown` without permission to check. */
static bool same(pid_t pid, const char *what, bool unknown)
{
	struct statx own, its;
	char self[64];

	snprintf(self, sizeof self, "/proc/self/%s", what);
	if (!look(self, &own) || !look(procfs_path(pid, what).text, &its))
		return unknown;
	return its.stx_ino == own.stx_ino && its.stx_dev_major == own.stx_dev_major &&
	       its.stx_dev_minor == own.stx_dev_minor;
}

static bool is_id(const char *text)
{
	for (size_t i = 0; i < ID_DIGITS; i++)
		if (!isxdigit((unsigned char)text[i]))
			return false;
	return !isxdigit((unsigned char)text[ID_DIGITS]);
}

/* "/lxc.payload.NAME/" and "/machine-NAME.scope": returns NAME. */
static char *named(const char *groups, const char *before)
{
	const char *at = strstr(groups, before);
	size_t length;

	if (!at)
		return NULL;
	at += strlen(before);
	length = strcspn(at, "/\n");
	if (length > 6 && strncmp(at + length - 6, ".scope", 6) == 0)
		length -= 6;
	return length ? strndup(at, length) : NULL;
}

char *container_in_groups(const char *groups)
{
	static const char *const names[] = { "/lxc.payload.", "/lxc/", "/machine-" };

	for (const char *at = groups; *at; at++)
		if ((at == groups || !isxdigit((unsigned char)at[-1])) && is_id(at))
			return strndup(at, ID_SHOWN);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *name = named(groups, names[i]);

		if (name)
			return name;
	}
	return NULL;
}

int container_open(pid_t pid, const char *path)
{
	/* Absolute symbolic links resolve to the container's root, as they do inside the container. */
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	struct stat st;
	AUTO_CLOSE int root = open(procfs_path(pid, "root").text, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd = root < 0 ? -1 : openat2_call(root, path, &how);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return TAKE_FD(fd);
}

/* Only if the content is a valid host name: the file is untrusted. */
static char *host_name(pid_t pid)
{
	AUTO_CLOSE int fd = container_open(pid, "/etc/hostname");
	char text[HOST_MAX + 2];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	size_t length;

	if (got <= 0)
		return NULL;
	text[got] = '\0';
	length = strcspn(text, "\n");
	if (length == 0 || length > HOST_MAX)
		return NULL;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-._", text[i]))
			return NULL;
	return strndup(text, length);
}

/* host NULL: as its files say. */
static char *name_of(pid_t pid, const char *said)
{
	AUTO_FREE char *groups = procfs_file(pid, "cgroup", NULL);
	AUTO_FREE char *id = groups ? container_in_groups(groups) : NULL;
	AUTO_FREE char *own_groups = procfs_file(getpid(), "cgroup", NULL);
	char *host = NULL;

	/* We may be in the same container: then it is not reported. */
	if (same(pid, "ns/pid", true) && (!id || (own_groups && strcmp(groups, own_groups) == 0)))
		return NULL;
	if (!same(pid, "root", true))
		host = !said ? host_name(pid) : *said ? strdup(said) : NULL;
	if (host)
		return host;
	return id ? TAKE(id) : strdup("?");
}

char *container_name(pid_t pid)
{
	return name_of(pid, NULL);
}

char *container_name_of(pid_t pid, const char *host)
{
	return name_of(pid, host);
}

bool container_is_ours(pid_t pid)
{
	return same(pid, "root", false) && same(pid, "ns/mnt", false) &&
	       same(pid, "ns/pid", false) && same(pid, "ns/user", false);
}

char *container_root(pid_t pid)
{
	if (same(pid, "root", true) && same(pid, "ns/mnt", true))
		return NULL;
	return strdup(procfs_path(pid, "root").text);
}
