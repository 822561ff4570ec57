/* SPDX-License-Identifier: Apache-2.0 */
/* links: cli */
/*
 * Which value of an option holds, of the command line, the environment and the two files; and what is refused.
 */
#include "cli/options/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "unit.h"
#include "util/files.h"
#include "util/output_file.h"

static char folder[] = "/tmp/test_cli_settings.XXXXXX";

static int enter_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("heapgauge", 0755) != 0)
		return -1;
	clearenv();
	return setenv("XDG_CONFIG_HOME", folder, 1);
}

static int leave_folder(void **state)
{
	(void)state;
	unlink(SETTINGS_FOLDER_FILE);
	unlink("heapgauge/config.ini");
	rmdir("heapgauge");
	return chdir("/") == 0 ? rmdir(folder) : -1;
}

static int forget(void **state)
{
	(void)state;
	unlink(SETTINGS_FOLDER_FILE);
	unlink("heapgauge/config.ini");
	clearenv();
	return setenv("XDG_CONFIG_HOME", folder, 1);
}

static void write_text(const char *path, const char *text)
{
	assert_int_equal(output_file_write(path, span_of(text, strlen(text)), 0644, NULL), 0);
}

static const char *const colours[] = { "red", "green", "name:", NULL };
static const struct option_row rows[] = {
	{ "limit", 'n', "N", "" },
	{ "quiet", 'q', NULL, "" },
	{ "view", 0, "VIEW", "", .choices = WORDS(colours) },
	{ "pid", 0, "PID", "", .scope = OPTION_TYPED_ONLY },
};
enum { LIMIT, QUIET, VIEW };

/* Everything that a loop would get, as "limit=5 quiet word "; an error as "! message". */
static const char *loop(bool program_follows, char *const *words)
{
	static char text[1024];
	struct options o;
	struct error error = ERROR_INIT;
	char *argv[16] = { (char[]){ "report" } };
	const char *value;
	size_t at = 0;
	int argc = 1, got;

	while (words[argc - 1])
		argv[argc] = words[argc - 1], argc++;
	o = options_over(rows, ARRAY_SIZE(rows), argc, argv);
	o.program_follows = program_follows;
	o.read_settings = settings_for;
	text[0] = 0;
	while ((got = options_next(&o, &value, &error)) != OPTIONS_END) {
		if (got == OPTIONS_ERROR) {
			snprintf(text, sizeof text, "! %s%s%s",
				 options_origin() ? options_origin() : "",
				 options_origin() ? ": " : "", error.message);
			return text;
		}
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s ",
				       got == OPTIONS_WORD ? "" : rows[got].name,
				       got != OPTIONS_WORD && value ? "=" : "", value ? value : "");
		if (got == OPTIONS_WORD && program_follows)
			break;
	}
	if (o.common.no_pager)
		at += (size_t)snprintf(text + at, sizeof text - at, "(no pager)");
	if (o.common.color == WHEN_NEVER)
		snprintf(text + at, sizeof text - at, "(no colour)");
	return text;
}
#define LOOP(...) loop(false, (char *[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })
#define WORD(text) ((char[]){ text })

static void the_command_line_goes_before_environment_folder_and_user(void **state)
{
	(void)state;
	write_text("heapgauge/config.ini", "[report]\nlimit = 1\n");
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=1 ");
	write_text(SETTINGS_FOLDER_FILE, "[report]\nlimit = 2\n");
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=2 ");
	setenv("HEAPGAUGE_LIMIT", "3", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=3 ");
	assert_string_equal(LOOP(WORD("-n4")), "limit=4 ");
	assert_string_equal(LOOP(WORD("--no-config")), "");
	setenv("HEAPGAUGE_LIMIT", "", 1); /* empty is not set */
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=2 ");
}

static void a_commands_section_goes_before_all(void **state)
{
	(void)state;
	write_text(SETTINGS_FOLDER_FILE, "[report]\nlimit = 2\n[all]\nlimit = 1\nno-pager = yes\n"
					 "[record]\nquiet = yes\n");
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=2 (no pager)");
	/* The nearer file decides, even if only its [all] has it. */
	write_text("heapgauge/config.ini", "[report]\nlimit = 7\n[all]\ncolor = never\n");
	write_text(SETTINGS_FOLDER_FILE, "[all]\nlimit = 1\n");
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=1 (no colour)");
}

static void a_flag_can_be_taken_back(void **state)
{
	(void)state;
	setenv("HEAPGAUGE_QUIET", "on", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }), "quiet ");
	assert_string_equal(LOOP(WORD("--quiet=no")), "");
	assert_string_equal(LOOP(WORD("--quiet")), "quiet ");
	setenv("HEAPGAUGE_QUIET", "off", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }), "");
	setenv("HEAPGAUGE_QUIET", "maybe", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }),
			    "! HEAPGAUGE_QUIET: --quiet takes yes or no, not 'maybe'");
	assert_string_equal(LOOP(WORD("--quiet=2")), "! --quiet takes yes or no, not '2'");
}

static void all_values_of_the_deciding_section_come_in_order(void **state)
{
	(void)state;
	write_text(SETTINGS_FOLDER_FILE, "[report]\nlimit = 1\nlimit = 2\n[all]\nlimit = 3\n");
	assert_string_equal(loop(false, (char *[]){ NULL }), "limit=1 limit=2 ");
}

static void what_a_program_takes_is_its_own(void **state)
{
	char *words[] = { WORD("-q"), WORD("prog"), WORD("--limit"), WORD("9"), NULL };

	(void)state;
	setenv("HEAPGAUGE_LIMIT", "3", 1);
	assert_string_equal(loop(true, words), "quiet limit=3 prog ");
	assert_string_equal(loop(false, words), "quiet prog limit=9 ");
}

static void choices_are_checked_wherever_they_come_from(void **state)
{
	(void)state;
	assert_string_equal(LOOP(WORD("--view=red")), "view=red ");
	assert_string_equal(LOOP(WORD("--view"), WORD("name:x")), "view=name:x ");
	assert_string_equal(LOOP(WORD("--view=gren")),
			    "! --view does not take 'gren'; did you mean 'green'?");
	assert_string_equal(LOOP(WORD("--view=zzzzzz")), "! --view does not take 'zzzzzz'");
	setenv("HEAPGAUGE_VIEW", "rde", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }),
			    "! HEAPGAUGE_VIEW: --view does not take 'rde'; did you mean 'red'?");
}

static void expect_refused(const char *ini, const char *message)
{
	write_text(SETTINGS_FOLDER_FILE, ini);
	assert_string_equal(loop(false, (char *[]){ NULL }), message);
}

static void an_unknown_key_names_file_line_and_the_nearest(void **state)
{
	(void)state;
	expect_refused("[report]\nlimt = 1\n",
		       "! .heapgauge.ini:2: report has no option 'limt'; did you mean 'limit'?");
	expect_refused(
		"[all]\n\nquit = 1\n",
		"! .heapgauge.ini:3: no command has an option 'quit'; did you mean 'quiet'?");
	expect_refused("[reprot]\nlimit = 1\n",
		       "! .heapgauge.ini:2: unknown section [reprot]; did you "
		       "mean [report]?");
	expect_refused("[report]\nzzzzzzzzzzzz = 1\n",
		       "! .heapgauge.ini:2: report has no option 'zzzzzzzzzzzz'");
	expect_refused("limit = 1\n", "! .heapgauge.ini:1: 'limit' is outside any section: put "
				      "[all] or a command such as [report] above it");
	expect_refused("[report]\npid = 1\n",
		       "! .heapgauge.ini:2: 'pid' can only be given on the command line");
	expect_refused("[all]\nno-config = 1\n",
		       "! .heapgauge.ini:2: 'no-config' can only be given on the command line");
}

static void a_folders_file_cannot_say_where_to_write(void **state)
{
	char *record[] = { WORD("record"), WORD("true") };
	struct options o =
		options_over(command_record.options, command_record.option_count, 2, record);
	struct error error = ERROR_INIT;
	const char *value;

	(void)state;
	write_text("heapgauge/config.ini", "[record]\noutput = mine.hg\n");
	o.program_follows = true;
	o.read_settings = settings_for;
	assert_true(options_next(&o, &value, &error) >= 0);
	assert_string_equal(value, "mine.hg");
	write_text(SETTINGS_FOLDER_FILE, "[record]\noutput = ../../.profile\n");
	o = options_over(command_record.options, command_record.option_count, 2, record);
	o.program_follows = true;
	o.read_settings = settings_for;
	assert_int_equal(options_next(&o, &value, &error), OPTIONS_ERROR);
	assert_non_null(strstr(error.message, "cannot be set in a folder's .heapgauge.ini"));
}

static void a_file_that_anybody_can_write_is_not_read(void **state)
{
	(void)state;
	write_text(SETTINGS_FOLDER_FILE, "[report]\nlimit = 2\n");
	assert_int_equal(chmod(SETTINGS_FOLDER_FILE, 0666), 0);
	assert_string_equal(loop(false, (char *[]){ NULL }), "");
}

static void a_mistyped_variable_is_named_and_a_strangers_is_not(void **state)
{
	(void)state;
	setenv("HEAPGAUGE_PORT", "tcp://10.0.0.1:80", 1);
	setenv("HEAPGAUGE_SERVICE_HOST", "10.0.0.1", 1);
	setenv("HEAPGAUGE_SOMETHING_ELSE", "1", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }), "");
	setenv("HEAPGAUGE_LIT", "1", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }), "");
	setenv("HEAPGAUGE_LIMTI", "1", 1);
	assert_string_equal(loop(false, (char *[]){ NULL }),
			    "! HEAPGAUGE_LIMTI in the environment is not an option; did you mean "
			    "HEAPGAUGE_LIMIT?");
}

static void distance_counts_slips(void **state)
{
	(void)state;
	assert_int_equal(edit_distance("", ""), 0);
	assert_int_equal(edit_distance("", "abc"), 3);
	assert_int_equal(edit_distance("abc", ""), 3);
	assert_int_equal(edit_distance("kitten", "sitting"), 3);
	assert_int_equal(edit_distance("report", "reprot"), 1);
	assert_int_equal(edit_distance("ab", "ba"), 1);
	assert_int_equal(edit_distance("view", "viewer"), 2);
}

static void no_option_has_the_name_of_another_variable(void **state)
{
	char name[SETTINGS_VARIABLE_BYTES];

	(void)state;
	for (size_t c = 0; commands[c]; c++)
		for (size_t i = 0; i < commands[c]->option_count; i++)
			if (commands[c]->options[i].name &&
			    commands[c]->options[i].scope != OPTION_TYPED_ONLY)
				assert_true(settings_variable(&commands[c]->options[i], name));
	assert_true(settings_variable(&(struct option_row){ .name = "no-pager" }, name));
	assert_string_equal(name, "HEAPGAUGE_NO_PAGER");
	assert_false(settings_variable(&(struct option_row){ .name = "socket" }, name));
	assert_false(settings_variable(&(struct option_row){ .name = "pager" }, name));
}

#define CLEAN(test) cmocka_unit_test_teardown(test, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLEAN(the_command_line_goes_before_environment_folder_and_user),
		CLEAN(a_commands_section_goes_before_all),
		CLEAN(a_flag_can_be_taken_back),
		CLEAN(all_values_of_the_deciding_section_come_in_order),
		CLEAN(what_a_program_takes_is_its_own),
		CLEAN(choices_are_checked_wherever_they_come_from),
		CLEAN(an_unknown_key_names_file_line_and_the_nearest),
		CLEAN(a_folders_file_cannot_say_where_to_write),
		CLEAN(a_file_that_anybody_can_write_is_not_read),
		CLEAN(a_mistyped_variable_is_named_and_a_strangers_is_not),
		CLEAN(distance_counts_slips),
		CLEAN(no_option_has_the_name_of_another_variable),
	};

	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
