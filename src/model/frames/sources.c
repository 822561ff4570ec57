/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source lines for reports. A file is read once, when its first line is asked for. What a recording contains precedes the file
 * on disk, which may have changed since.
 *
 * Owns the texts of the files that were read. One thread, except for sources_path, which changes nothing.
 * Invariant: an entry of `files` without a text is a file that cannot be read.
 */
#include "model/frames/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/frames/bundle.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/vector.h"

enum { FILE_MAX_BYTES = 8 << 20 };

struct source_file {
	char *name;
	struct buffer text;	    /* its line ends are NULs */
	VECTOR(const char *) lines; /* in text */
};

struct sources {
	VECTOR(const char *) moves;
	VECTOR(struct source_file *) files;
};

struct sources *sources_new(void)
{
	return calloc(1, sizeof(struct sources));
}

static void source_file_free(struct source_file *file)
{
	if (!file)
		return;
	free(file->name);
	buffer_release(&file->text);
	vector_release(&file->lines);
	free(file);
}

void sources_free(struct sources *sources)
{
	if (!sources)
		return;
	for (size_t i = 0; i < sources->files.count; i++)
		source_file_free(sources->files.at[i]);
	vector_release(&sources->files);
	vector_release(&sources->moves);
	free(sources);
}

int sources_move(struct sources *sources, const char *from_to, struct error *error)
{
	const char *equals = strchr(from_to, '=');

	if (!equals || equals == from_to || equals[1] == '\0')
		return error_set(error,
				 "--source-map takes FROM=TO, such as /build=/home/me/project, "
				 "not %s",
				 from_to);
	return vector_push(&sources->moves, from_to) ? 0 : error_set(error, "out of memory");
}

char *sources_path(const struct sources *sources, const char *file)
{
	for (size_t i = 0; sources && i < sources->moves.count; i++) {
		const char *from = sources->moves.at[i], *to = strchr(from, '=') + 1;
		size_t length = (size_t)(to - from) - 1;
		char *path = NULL;

		if (from[length - 1] == '/')
			length--;
		if (strncmp(file, from, length) != 0 || file[length] != '/')
			continue;
		/* Absolute, as other paths from debug information are not looked for in the current folder. */
		AUTO_FREE char *here = *to == '/' ? strdup("") : getcwd(NULL, 0);

		if (!here ||
		    asprintf(&path, "%s%s%s%s", here, *here ? "/" : "", to, file + length) < 0)
			return NULL;
		return path;
	}
	return strdup(file);
}

/* False: out of memory. */
static bool split(struct source_file *file)
{
	char *at = file->text.size ? buffer_string(&file->text) : NULL;

	while (at && *at) {
		char *end = strchr(at, '\n');

		if (!vector_push(&file->lines, at))
			return false;
		if (end)
			*end = '\0';
		at = end ? end + 1 : NULL;
	}
	return true;
}

static struct source_file *open_file(struct sources *sources, const char *name)
{
	for (size_t i = 0; i < sources->files.count; i++)
		if (strcmp(sources->files.at[i]->name, name) == 0)
			return sources->files.at[i];
	AUTO_FREE char *path = sources_path(sources, name);
	struct source_file *file = calloc(1, sizeof *file);

	if (file)
		file->name = strdup(name);
	if (!file || !file->name || !path || !vector_push(&sources->files, file)) {
		source_file_free(file);
		return NULL;
	}
	if (path[0] == '/' && file_read(path, FILE_MAX_BYTES, &file->text, NULL) == 0)
		(void)split(file);
	return file;
}

struct wanted_line {
	uint32_t line;
	const char *text;
};

static void take_bundled(void *context, uint32_t line, const char *text)
{
	struct wanted_line *wanted = context;

	if (line == wanted->line)
		wanted->text = text;
}

const char *sources_line(struct sources *sources, const struct profile *profile, const char *file,
			 uint32_t line)
{
	struct wanted_line wanted = { .line = line };

	if (line == 0)
		return NULL;
	for (size_t i = 0; i < profile->process_count && !wanted.text; i++)
		bundle_lines(&profile->processes[i], file, take_bundled, &wanted);
	const struct source_file *read = wanted.text ? NULL : open_file(sources, file);

	if (read && line <= read->lines.count)
		wanted.text = read->lines.at[line - 1];
	return wanted.text ? wanted.text + strspn(wanted.text, " \t") : NULL;
}
