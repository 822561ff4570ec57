/* SPDX-License-Identifier: Apache-2.0 */
/* Six fields separated by blanks; the last may be missing or contain blanks itself. Pure. */
#include "collect/kernel/map_line.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { PERMISSIONS_BYTES = 4, HEXADECIMAL = 16 };

/* Parses a number and the character after it; NULL on a mismatch. */
static const char *number(const char *at, char behind, uint64_t *ret)
{
	char *end;

	*ret = strtoull(at, &end, HEXADECIMAL);
	return end != at && *end == behind ? end + 1 : NULL;
}

/* Skips the current field and the blanks after it. */
static const char *skip_field(const char *at)
{
	at += strcspn(at, " \n");
	return at + strspn(at, " ");
}

/* "major:minor inode   name" */
static bool file_of(const char *at, struct map_line *ret)
{
	uint64_t major, minor;

	at = number(at, ':', &major);
	at = at ? number(at, ' ', &minor) : NULL;
	if (!at)
		return false;
	ret->device = makedev((unsigned)major, (unsigned)minor);
	ret->inode = strtoull(at, NULL, 10);
	ret->name = skip_field(at);
	return true;
}

bool map_line_parse(const char *line, struct map_line *ret)
{
	const char *at = number(line, '-', &ret->start);

	at = at ? number(at, ' ', &ret->end) : NULL;
	if (!at || strcspn(at, " \n") != PERMISSIONS_BYTES)
		return false;
	ret->permissions = at;
	at = number(skip_field(at), ' ', &ret->offset);
	if (!at)
		return false;
	return file_of(at, ret);
}

bool map_line_next(const char **at, struct map_line *ret)
{
	bool found = false;

	while (!found && **at) {
		const char *end = strchrnul(*at, '\n');

		found = map_line_parse(*at, ret);
		*at = *end ? end + 1 : end;
	}
	return found;
}
