/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is copied first and checked then, because its owner could change it in between. Ids that were offered once are not
 * looked at again until the agent is restarted.
 *
 * Owns the set of known ids.
 */
#include "agent/push/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/binaries/elf_facts.h"
#include "collect/kernel/container.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"

enum { ID_MIN = 8, ID_MAX = 128, KNOWN_MAX = 100000, COPY_BYTES = 1 << 20 };

struct symbols {
	char *folder;
	uint64_t max_bytes;
	struct intern known;
	struct symbols_counters counters;
};

struct symbols *symbols_open(const char *folder, uint64_t max_bytes, struct error *error)
{
	struct symbols *s = calloc(1, sizeof *s);
	AUTO_FREE char *below = path_join(folder, "buildid");

	if (s)
		s->folder = strdup(folder);
	if (!s || !s->folder || !below) {
		error_set(error, "out of memory");
	} else if ((mkdir(folder, 0755) < 0 && errno != EEXIST) ||
		   (mkdir(below, 0755) < 0 && errno != EEXIST)) {
		error_errno(error, "cannot create %s", below);
	} else {
		s->max_bytes = max_bytes;
		return s;
	}
	symbols_close(s);
	return NULL;
}

void symbols_close(struct symbols *s)
{
	if (!s)
		return;
	intern_release(&s->known);
	free(s->folder);
	free(s);
}

struct symbols_counters symbols_counters(const struct symbols *s)
{
	return s->counters;
}

static bool is_id(const char *id)
{
	size_t length = strlen(id);

	return length >= ID_MIN && length <= ID_MAX && length % 2 == 0 &&
	       strspn(id, "0123456789abcdef") == length;
}

/* False if it is known, or there are too many. */
static bool learn(struct symbols *s, const char *id)
{
	size_t before = s->known.used;

	return before < KNOWN_MAX && intern_text(&s->known, id) && s->known.used > before;
}

static bool has_id(const char *path, const char *id)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_facts facts = { 0 };
	char hex[2 * sizeof facts.build_id + 1] = "";

	if (file_map_open(&map, path, NULL) < 0 || !elf_facts_of(map.bytes, &facts))
		return false;
	for (size_t i = 0; i < facts.build_id_bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", facts.build_id[i]);
	return strcmp(hex, id) == 0;
}

static bool copy_all(int from, int to, uint64_t limit)
{
	uint64_t copied = 0;

	for (;;) {
		ssize_t got = copy_file_range(from, NULL, to, NULL, COPY_BYTES, 0);

		if (got < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS) &&
		    copied == 0)
			break; /* not between these file systems */
		if (got <= 0)
			return got == 0;
		copied += (uint64_t)got;
		if (copied > limit)
			return false;
	}
	AUTO_FREE char *bytes = malloc(COPY_BYTES);

	while (bytes) {
		ssize_t got = read(from, bytes, COPY_BYTES);

		if (got <= 0)
			return got == 0;
		copied += (uint64_t)got;
		if (copied > limit ||
		    file_write_all(to, span_of(bytes, (size_t)got), "symbols", NULL) < 0)
			return false;
	}
	return false;
}

/* Returns the bytes of the file that is now at `path`; 0: it was refused. */
static uint64_t keep(struct symbols *s, pid_t pid, const char *id, const char *path, const char *to)
{
	AUTO_CLOSE int from = container_open(pid, path);
	AUTO_FREE char *temporary = NULL;
	struct stat file;
	uint64_t room = s->max_bytes - s->counters.bytes;

	if (from < 0 || fstat(from, &file) < 0 || file.st_uid != 0 ||
	    (file.st_mode & (S_IWGRP | S_IWOTH)) || (uint64_t)file.st_size > room ||
	    asprintf(&temporary, "%s.tmp", to) < 0)
		return 0;
	AUTO_CLOSE int out =
		open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (out >= 0 && copy_all(from, out, room) && has_id(temporary, id) && fsync(out) == 0 &&
	    fstat(out, &file) == 0 && rename(temporary, to) == 0)
		return (uint64_t)file.st_size;
	unlink(temporary);
	return 0;
}

bool symbols_offer(struct symbols *s, pid_t pid, const char *id, const char *path)
{
	AUTO_FREE char *folder = NULL, *to = NULL;

	if (!is_id(id) || !learn(s, id) || asprintf(&folder, "%s/buildid/%s", s->folder, id) < 0 ||
	    asprintf(&to, "%s/debuginfo", folder) < 0)
		return false;
	if (access(to, F_OK) == 0 || (mkdir(folder, 0755) < 0 && errno != EEXIST))
		return false;
	uint64_t bytes = keep(s, pid, id, path, to);

	s->counters.files += bytes != 0;
	s->counters.bytes += bytes;
	s->counters.refused += bytes == 0;
	if (bytes == 0)
		rmdir(folder);
	return bytes != 0;
}
