/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the kernel and the environment about a terminal. No state, no locale: setlocale() would
 * change how numbers are formatted everywhere, so the encoding is read from the environment
 * variables in the same order as libc does.
 */
#include "util/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool locale_is_utf8(void)
{
	/* The first variable that is set decides, even if it names another encoding. */
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *value = environment(names[i]);
		const char *encoding = value ? strchr(value, '.') : NULL;

		if (!value)
			continue;
		return encoding && (strncasecmp(encoding, ".utf-8", 6) == 0 ||
				    strncasecmp(encoding, ".utf8", 5) == 0);
	}
	return false;
}

/* A size from an environment variable; 0 if there is none. */
static unsigned size_of(const char *name)
{
	const char *value = environment(name);
	unsigned long size;
	char *end;

	if (!value)
		return 0;
	size = strtoul(value, &end, 10);
	return *end == '\0' && size <= 10000 ? (unsigned)size : 0;
}

struct terminal terminal_of(int fd)
{
	struct terminal t = { .is_tty = isatty(fd) == 1, .utf8 = locale_is_utf8() };
	const char *term = environment("TERM");
	struct winsize size = { 0 };

	if (ioctl(fd, TIOCGWINSZ, &size) < 0)
		size = (struct winsize){ 0 };
	t.columns = size.ws_col ? size.ws_col : size_of("COLUMNS");
	t.rows = size.ws_row ? size.ws_row : size_of("LINES");
	t.columns_given = t.columns != 0;
	if (!t.columns)
		t.columns = TERMINAL_DEFAULT_COLUMNS;
	if (!t.rows)
		t.rows = TERMINAL_DEFAULT_ROWS;

	t.redraws = t.is_tty && term && strcmp(term, "dumb") != 0;
	t.colours = t.redraws && !environment("NO_COLOR");
	return t;
}
