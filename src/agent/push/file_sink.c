/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `files` mirrors the files of this host below the folder, oldest first: found by their names at the start, added to and deleted from
 * afterwards. Names of services and hosts come from outside; a part of a path is made of harmless characters only, so that it can be
 * neither another folder nor a hidden file.
 *
 * A folder of an hour, a day or a service is removed with its last file. Another agent may do so between our mkdir and our write, which is
 * then tried once more.
 */
#include "agent/push/file_sink.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/vector.h"

enum {
	PART_MAX = 100,	   /* bytes of a service or host in a path */
	DEPTH_SERVICE = 1, /* of paths below the folder */
	DEPTH_FILE = 4,
};

struct file {
	char *path;	  /* below the folder; owned */
	const char *hour; /* its part "YYYY-MM-DD/HH/..." */
	uint64_t bytes;
	struct timespec modified;
};

struct file_sink {
	char *folder;
	char host[PART_MAX + 1];
	const char *suffix;
	uint64_t max_bytes;
	VECTOR(struct file) files;
	size_t first; /* those before it were deleted */
	struct file_sink_counters counters;
};

/* ---- names ---- */

static void make_part(const char *text, char part[PART_MAX + 1])
{
	size_t length = strnlen(text, PART_MAX);

	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
				(c >= '0' && c <= '9') || c == '-' || c == '_' ||
				(c == '.' && i > 0);

		part[i] = is_plain ? c : '_';
	}
	part[length] = '\0';
	if (length == 0)
		memcpy(part, "_", sizeof "_");
}

static size_t digits(const char *text)
{
	return strspn(text, "0123456789");
}

/* Whether it is HOST-PID-SERIAL and the suffix; *ret_rest is what follows. */
static bool is_own_name(const struct file_sink *s, const char *name, const char **ret_rest)
{
	size_t host = strlen(s->host), pid, serial;

	if (strncmp(name, s->host, host) != 0 || name[host] != '-')
		return false;
	name += host + 1;
	pid = digits(name);
	if (!pid || name[pid] != '-')
		return false;
	name += pid + 1;
	serial = digits(name);
	if (!serial || strncmp(name + serial, s->suffix, strlen(s->suffix)) != 0)
		return false;
	*ret_rest = name + serial + strlen(s->suffix);
	return true;
}

/* The part after "service=NAME/". */
static const char *hour_of(const char *path)
{
	const char *slash = strchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *make_path(const struct file_sink *s, const struct file_sink_profile *p)
{
	time_t seconds = (time_t)(p->at_ns / NS_PER_S);
	AUTO(buffer_release) struct buffer path = BUFFER_INIT;
	char service[PART_MAX + 1];
	struct tm at = { 0 };

	gmtime_r(&seconds, &at);
	make_part(p->service, service);
	buffer_printf(&path, "service=%s/%04d-%02d-%02d/%02d/%s-%" PRIu64 "-%" PRIu64 "%s", service,
		      at.tm_year + 1900, at.tm_mon + 1, at.tm_mday, at.tm_hour, s->host, p->pid,
		      p->serial, s->suffix);
	return buffer_take_string(&path);
}

/* ---- the list ---- */

static int compare_files(const void *left, const void *right)
{
	const struct file *a = left, *b = right;
	size_t hour = strlen("YYYY-MM-DD/HH");
	int order = strncmp(a->hour, b->hour, hour);

	if (order == 0 && a->modified.tv_sec != b->modified.tv_sec)
		order = a->modified.tv_sec < b->modified.tv_sec ? -1 : 1;
	if (order == 0 && a->modified.tv_nsec != b->modified.tv_nsec)
		order = a->modified.tv_nsec < b->modified.tv_nsec ? -1 : 1;
	return order ? order : strcmp(a->path, b->path);
}

static bool push_file(struct file_sink *s, char *path, uint64_t bytes, struct timespec modified)
{
	struct file file = {
		.path = path, .hour = hour_of(path), .bytes = bytes, .modified = modified
	};

	if (!vector_push(&s->files, file))
		return false;
	s->counters.files++;
	s->counters.bytes += bytes;
	return true;
}

/* Removes the folders of an hour, its day and its service if they are empty: whoever names services could make any number. */
static void remove_folders(char *path)
{
	for (int i = 0; i < DEPTH_FILE - 1; i++) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return;
		*slash = '\0';
		if (rmdir(path) < 0)
			return;
	}
}

static void delete_oldest(struct file_sink *s)
{
	struct file *file = &s->files.at[s->first];
	AUTO_FREE char *path = path_join(s->folder, file->path);

	if (path && unlink(path) == 0) {
		s->counters.deleted++;
		remove_folders(path);
	}
	s->counters.files--;
	s->counters.bytes -= file->bytes;
	free(file->path);
	s->first++;
	if (s->first <= s->files.count / 2)
		return;
	s->files.count -= s->first;
	memmove(s->files.at, s->files.at + s->first, s->files.count * sizeof *s->files.at);
	s->first = 0;
}

/* Forgets a file that is replaced. Searches from the newest, which it must be, because its name has the hour. */
static void forget(struct file_sink *s, const char *path)
{
	for (size_t i = s->files.count; i-- > s->first;) {
		struct file *file = &s->files.at[i];

		if (strcmp(file->path, path) != 0)
			continue;
		s->counters.files--;
		s->counters.bytes -= file->bytes;
		free(file->path);
		s->files.count--;
		memmove(file, file + 1, (s->files.count - i) * sizeof *file);
		return;
	}
}

/* ---- opening ---- */

static int list_entry(struct file_sink *s, const FTSENT *entry, struct error *err)
{
	const char *path = entry->fts_path + strlen(s->folder), *rest = NULL;
	char *copy;

	if (entry->fts_info != FTS_F || entry->fts_level != DEPTH_FILE ||
	    !is_own_name(s, entry->fts_name, &rest))
		return 0;
	if (*rest) { /* a temporary file of an agent that was killed */
		if (rest[0] == '.' && strlen(rest) > strlen(".tmp") &&
		    strcmp(rest + strlen(rest) - strlen(".tmp"), ".tmp") == 0)
			unlink(entry->fts_accpath);
		return 0;
	}
	copy = strdup(path + strspn(path, "/"));
	if (copy &&
	    push_file(s, copy, (uint64_t)entry->fts_statp->st_size, entry->fts_statp->st_mtim))
		return 0;
	free(copy);
	return error_set(err, "list %s: out of memory", s->folder);
}

static int list_folder(struct file_sink *s, struct error *err)
{
	char *const roots[] = { s->folder, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	int status = 0;

	if (!tree)
		return error_errno(err, "list %s", s->folder);
	for (FTSENT *entry; status == 0 && (entry = fts_read(tree));) {
		bool is_other = entry->fts_level == DEPTH_SERVICE &&
				strncmp(entry->fts_name, "service=", strlen("service=")) != 0;

		if (entry->fts_info == FTS_D && (is_other || entry->fts_level >= DEPTH_FILE))
			fts_set(tree, entry, FTS_SKIP);
		else if (!is_other)
			status = list_entry(s, entry, err);
	}
	fts_close(tree);
	if (s->files.count)
		qsort(s->files.at, s->files.count, sizeof *s->files.at, compare_files);
	return status;
}

struct file_sink *file_sink_open(const char *folder, const char *host, const char *suffix,
				 uint64_t max_bytes, struct error *err)
{
	struct file_sink *s = calloc(1, sizeof *s);

	if (s)
		s->folder = strdup(folder);
	if (!s || !s->folder) {
		error_set(err, "open %s: out of memory", folder);
		free(s);
		return NULL;
	}
	s->max_bytes = max_bytes;
	s->suffix = suffix;
	make_part(host, s->host);
	if (mkdir(folder, 0750) < 0 && errno != EEXIST)
		error_errno(err, "create %s", folder);
	else if (access(folder, R_OK | W_OK | X_OK) < 0)
		error_errno(err, "write to %s", folder);
	else if (list_folder(s, err) == 0)
		return s;
	file_sink_close(s);
	return NULL;
}

void file_sink_close(struct file_sink *s)
{
	if (!s)
		return;
	for (size_t i = s->first; i < s->files.count; i++)
		free(s->files.at[i].path);
	vector_release(&s->files);
	free(s->folder);
	free(s);
}

/* ---- writing ---- */

/* Creates the folders of a path, below the sink's own. */
static int make_folders(const struct file_sink *s, char *path, struct error *err)
{
	for (char *at = path + strlen(s->folder) + 1; (at = strchr(at, '/')); at++) {
		int status;

		*at = '\0';
		status = mkdir(path, 0750) < 0 && errno != EEXIST
				 ? error_errno(err, "create %s", path)
				 : 0;
		*at = '/';
		if (status < 0)
			return -1;
	}
	return 0;
}

static int write_file(const struct file_sink *s, char *path, struct span bytes, struct error *err)
{
	for (int attempt = 0;; attempt++) {
		if (make_folders(s, path, err) < 0)
			return -1;
		if (output_file_write(path, bytes, 0640, err) == 0)
			return 0;
		if (errno != ENOENT || attempt == 1)
			return -1;
	}
}

static int write_profile(struct file_sink *s, const struct file_sink_profile *p, struct error *err)
{
	AUTO_FREE char *below = make_path(s, p);
	AUTO_FREE char *path = below ? path_join(s->folder, below) : NULL;
	bool is_replaced;

	if (!path || !vector_reserve(&s->files, 1))
		return error_set(err, "write to %s: out of memory", s->folder);
	if (p->bytes.size > s->max_bytes)
		return error_set(err, "%s would be larger than all files may be", path);
	is_replaced = access(path, F_OK) == 0;
	if (write_file(s, path, p->bytes, err) < 0)
		return -1;
	if (is_replaced)
		forget(s, below);
	push_file(s, TAKE(below), p->bytes.size, (struct timespec){ 0 });
	while (s->counters.bytes > s->max_bytes)
		delete_oldest(s);
	return 0;
}

int file_sink_write(struct file_sink *s, const struct file_sink_profile *profile, struct error *err)
{
	int status = write_profile(s, profile, err);

	s->counters.written += status == 0;
	s->counters.failed += status < 0;
	return status;
}

void file_sink_count_failed(struct file_sink *s)
{
	s->counters.failed++;
}

struct file_sink_counters file_sink_counters(const struct file_sink *s)
{
	return s->counters;
}
