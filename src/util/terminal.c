/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel and the environment about a terminal. No state, no locale: setlocale() would
 * change how numbers are formatted everywhere, so the encoding is read from the variables by the
 * rule that libc itself uses.
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
	/* The first that is set decides, even if it names another encoding. */
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

static unsigned columns_of(int fd)
{
	const char *value = environment("COLUMNS");
	struct winsize size;
	unsigned long columns;
	char *end;

	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	if (!value)
		return TERMINAL_DEFAULT_COLUMNS;
	columns = strtoul(value, &end, 10);
	return *end == '\0' && columns > 0 && columns <= 10000 ? (unsigned)columns
							       : TERMINAL_DEFAULT_COLUMNS;
}

struct terminal terminal_of(int fd)
{
	struct terminal t = { .is_tty = isatty(fd) == 1,
			      .utf8 = locale_is_utf8(),
			      .columns = columns_of(fd) };
	const char *term = environment("TERM");

	t.redraws = t.is_tty && term && strcmp(term, "dumb") != 0;
	t.colours = t.redraws && !environment("NO_COLOR");
	return t;
}
