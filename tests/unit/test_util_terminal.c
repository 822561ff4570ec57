/* links: util base -lutil */
/* SPDX-License-Identifier: Apache-2.0 */
#include "util/terminal.h"

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "unit.h"

struct pair {
	int master, terminal;
};

/* A terminal of 132 columns, and an environment in which nothing is set but TERM. */
static int open_pair(void **state)
{
	static struct pair pair;
	struct winsize size = { .ws_row = 24, .ws_col = 132 };

	if (openpty(&pair.master, &pair.terminal, NULL, NULL, &size) < 0)
		return -1;
	*state = &pair;
	clearenv();
	return setenv("TERM", "xterm", 1);
}

static int close_pair(void **state)
{
	struct pair *pair = *state;

	close(pair->master);
	close(pair->terminal);
	return 0;
}

static void a_terminal_is_recognised_with_its_width(void **state)
{
	struct pair *pair = *state;
	struct terminal t;

	setenv("COLUMNS", "40", 1);
	t = terminal_of(pair->terminal);
	assert_true(t.is_tty && t.redraws && t.colours);
	assert_int_equal(t.columns, 132);
	assert_int_equal(t.rows, 24);
	assert_true(t.columns_given);
}

static void a_file_is_no_terminal(void **state)
{
	int fd = open("/dev/null", O_WRONLY);
	struct terminal t = terminal_of(fd);

	(void)state;
	assert_false(t.is_tty || t.redraws || t.colours);
	assert_int_equal(t.columns, TERMINAL_DEFAULT_COLUMNS);
	assert_int_equal(t.rows, TERMINAL_DEFAULT_ROWS);
	assert_false(t.columns_given);
	setenv("COLUMNS", "100", 1);
	setenv("LINES", "7", 1);
	assert_int_equal(terminal_of(fd).columns, 100);
	assert_int_equal(terminal_of(fd).rows, 7);
	assert_true(terminal_of(fd).columns_given);
	setenv("COLUMNS", "-3", 1);
	assert_int_equal(terminal_of(fd).columns, TERMINAL_DEFAULT_COLUMNS);
	setenv("COLUMNS", "12x", 1);
	assert_int_equal(terminal_of(fd).columns, TERMINAL_DEFAULT_COLUMNS);
	close(fd);
}

static void no_color_and_dumb_terminals_are_respected(void **state)
{
	struct pair *pair = *state;

	setenv("NO_COLOR", "", 1); /* empty counts as not set, as no-color.org says */
	assert_true(terminal_of(pair->terminal).colours);
	setenv("NO_COLOR", "1", 1);
	assert_false(terminal_of(pair->terminal).colours);
	assert_true(terminal_of(pair->terminal).redraws);
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	assert_false(terminal_of(pair->terminal).colours);
	assert_false(terminal_of(pair->terminal).redraws);
	assert_true(terminal_of(pair->terminal).is_tty);
}

static void the_first_locale_variable_decides_the_encoding(void **state)
{
	struct pair *pair = *state;

	assert_false(terminal_of(pair->terminal).utf8);
	setenv("LANG", "de_DE.UTF-8", 1);
	assert_true(terminal_of(pair->terminal).utf8);
	setenv("LC_CTYPE", "C", 1);
	assert_false(terminal_of(pair->terminal).utf8);
	setenv("LC_ALL", "C.utf8", 1);
	assert_true(terminal_of(pair->terminal).utf8);
	setenv("LC_ALL", "de_DE.ISO-8859-1", 1);
	assert_false(terminal_of(pair->terminal).utf8);
}

#define ON_TERMINAL(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_TERMINAL(a_terminal_is_recognised_with_its_width),
		ON_TERMINAL(a_file_is_no_terminal),
		ON_TERMINAL(no_color_and_dumb_terminals_are_respected),
		ON_TERMINAL(the_first_locale_variable_decides_the_encoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
