/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a recording. In a pattern, a percent sign and a letter stand for what is known when the program starts; a folder
 * stands for the default name inside it. Names that we make up may repeat: pids do, in containers at every start. Such a
 * recording gets a number instead of replacing an older one.
 *
 * Pure functions, except for those that look at or create files. Any thread.
 * Invariant: a name that we made up is created without replacing a file, so that two collectors never share one.
 */
#include "collect/run/output_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "collect/kernel/ranks.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"

enum { NUMBER_MAX = 10000, FILE_MODE = 0666 }; /* the mode is before the umask */
enum { SUFFIX_BYTES = 32 }; /* at least what numbers and temporary files add to a name */

int output_path_check(const char *pattern, struct error *error)
{
	if (*pattern == '\0')
		return error_set(error, "the recording needs a name");
	for (const char *at = pattern; (at = strchr(at, '%')) != NULL; at += 2) {
		if (at[1] == '\0')
			return error_set(error, "%s ends in a single %%: write %%%%", pattern);
		if (!strchr("phe%", at[1]))
			return error_set(error, "%%%c in %s stands for nothing; there are %s",
					 at[1], pattern, OUTPUT_LETTERS);
	}
	return 0;
}

static void put_letter(struct buffer *to, char letter, const char *program, pid_t pid)
{
	struct utsname name;

	switch (letter) {
	case 'p':
		buffer_printf(to, "%d", (int)pid);
		break;
	case 'e':
		buffer_text(to, path_base(program));
		break;
	case 'h':
		buffer_text(to, uname(&name) == 0 ? name.nodename : "unknown");
		break;
	default:
		buffer_char(to, '%');
	}
}

static bool is_folder(const char *path)
{
	size_t length = strlen(path);
	struct stat st;

	return (length > 0 && path[length - 1] == '/') ||
	       (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static void put_default(struct buffer *to, const char *program, pid_t pid, int rank)
{
	buffer_printf(to, "heapgauge.%s.", path_base(program));
	if (rank != RANK_NONE)
		buffer_printf(to, "rank%d.", rank);
	buffer_printf(to, "%d.hg", (int)pid);
}

char *output_path(const char *pattern, const char *program, pid_t pid, int rank)
{
	AUTO(buffer_release) struct buffer path = BUFFER_INIT;

	for (const char *at = pattern; at && *at; at++) {
		if (*at != '%')
			buffer_char(&path, *at);
		else if (at[1] != '\0')
			put_letter(&path, *++at, program, pid);
	}
	if (!pattern) {
		put_default(&path, program, pid, rank);
		return buffer_take_string(&path);
	}
	AUTO_FREE char *text = buffer_take_string(&path);

	if (!text || !is_folder(text))
		return TAKE(text);
	buffer_printf(&path, "%s%s", text, text[strlen(text) - 1] == '/' ? "" : "/");
	put_default(&path, program, pid, rank);
	return buffer_take_string(&path);
}

bool output_path_is_given(const char *pattern)
{
	return pattern && !strchr(pattern, '%') && !is_folder(pattern);
}

int output_path_check_writable(const char *pattern, const char *path, const char *input,
			       struct error *error)
{
	if (strlen(path_base(path)) + SUFFIX_BYTES > NAME_MAX)
		return error_set(error,
				 "the name of the recording, %.40s..., is too long: name a "
				 "shorter one with -o",
				 path_base(path));
	return output_path_is_given(pattern) ? output_file_check(path, &input, 1, error)
					     : output_file_check_folder(path, error);
}

/* "run.hg" and 2 -> "run-2.hg"; 1 -> "run.hg" */
static char *path_with_number(const char *path, unsigned number)
{
	size_t length = strlen(path);
	const char *suffix = length > 3 && strcmp(path + length - 3, ".hg") == 0 ? ".hg" : "";
	char *name;

	if (number == 1)
		return strdup(path);
	return asprintf(&name, "%.*s-%u%s", (int)(length - strlen(suffix)), path, number, suffix) <
			       0
		       ? NULL
		       : name;
}

int output_path_write_new(const char *path, struct span bytes, mode_t mode, char **ret_path,
			  struct error *error)
{
	for (unsigned i = 1; i <= NUMBER_MAX; i++) {
		AUTO_FREE char *name = path_with_number(path, i);

		if (!name)
			return error_set(error, "write %s: out of memory", path);
		if (output_file_write_new(name, bytes, mode, error) == 0) {
			*ret_path = TAKE(name);
			return 0;
		}
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

int output_path_write(const char *pattern, const char *path, struct span bytes, char **ret_path,
		      struct error *error)
{
	if (!output_path_is_given(pattern))
		return output_path_write_new(path, bytes, FILE_MODE, ret_path, error);
	if (output_file_write(path, bytes, FILE_MODE, error) < 0)
		return -1;
	*ret_path = strdup(path);
	return *ret_path ? 0 : error_set(error, "out of memory");
}
