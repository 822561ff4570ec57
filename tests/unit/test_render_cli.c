/* SPDX-License-Identifier: Apache-2.0 */
/* links: cli */
/*
 * The command line as functions: options, exit statuses, and the whole way from a file to its report.
 */
#include "test_model_made.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/summary.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"

static char folder[] = "/tmp/test_render_cli.XXXXXX";

static int enter_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	static const char *const files[] = { "a.hg", "b.hg", "cut.hg", "text.hg", "out", "err" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlink(files[i]);
	return chdir("/") == 0 ? rmdir(folder) : -1;
}

/* Writes a made recording; cut_bytes are left off at its end. */
static void write_recording(const char *path, size_t processes, size_t cut_bytes)
{
	struct recording recording = made_recording(processes);
	void *bytes = NULL;
	size_t length = 0;

	assert_int_equal(recording_encode(&recording, &bytes, &length, NULL), 0);
	assert_true(cut_bytes < length);
	assert_int_equal(output_file_write(path, span_of(bytes, length - cut_bytes), 0644, NULL),
			 0);
	free(bytes);
	recording_release(&recording);
}

static char *file_text(const char *path)
{
	struct buffer text = BUFFER_INIT;

	assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
	char *taken = buffer_take_string(&text);

	assert_non_null(taken);
	return taken;
}

struct outcome {
	int status;
	char *out, *err; /* owned */
};

static void outcome_release(struct outcome *o)
{
	free(o->out);
	free(o->err);
}

/* Runs `heapgauge report` with these words (NULL at the end) and catches what it prints. */
static struct outcome report(char *const *words)
{
	char *argv[16] = { (char[]){ "report" } };
	int argc = 1;

	while (words[argc - 1])
		argv[argc] = words[argc - 1], argc++;
	fflush(NULL);
	int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);

	assert_non_null(freopen("out", "w", stdout));
	assert_non_null(freopen("err", "w", stderr));
	struct outcome o = { .status = command_report.run(argc, argv) };

	fflush(NULL);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(out);
	close(err);
	o.out = file_text("out");
	o.err = file_text("err");
	return o;
}
#define REPORT(...) report((char *[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })
#define WORD(text) ((char[]){ text })

static void expect(struct outcome o, int status, const char *in_out, const char *in_err)
{
	AUTO(outcome_release) struct outcome owned = o;

	assert_int_equal(owned.status, status);
	if (in_out)
		assert_non_null(strstr(owned.out, in_out));
	else
		assert_string_equal(owned.out, "");
	if (in_err)
		assert_non_null(strstr(owned.err, in_err));
	else
		assert_string_equal(owned.err, "");
}

static void report_of_a_file_is_the_same_as_of_the_rows(void **state)
{
	(void)state;
	write_recording("a.hg", 1, 0);
	expect(REPORT(WORD("a.hg")), CLI_OK, "40.4 KiB within 256 B in 17 blocks at 9.1 s", NULL);
	expect(REPORT(WORD("a.hg"), WORD("--bytes")), CLI_OK, "41,350 B", NULL);
	expect(REPORT(WORD("--format=json"), WORD("a.hg")), CLI_OK, "\"peak_bytes\": 41350", NULL);
	expect(REPORT(WORD("a.hg"), WORD("--view"), WORD("sites"), WORD("-n"), WORD("1")), CLI_OK,
	       "... 4 more sites", NULL);
	expect(REPORT(WORD("a.hg"), WORD("-vsites"), WORD("--no-symbols")), CLI_OK,
	       "libhttp.so.1+0x4000", NULL);
}

static void without_a_file_the_newest_is_taken_and_named(void **state)
{
	struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	(void)state;
	write_recording("a.hg", 1, 0);
	write_recording("b.hg", 2, 0);
	assert_int_equal(utimensat(AT_FDCWD, "b.hg", old, 0), 0);
	expect(REPORT(WORD("-v"), WORD("summary")), CLI_OK, "17 blocks", "a.hg");
	unlink("a.hg");
	expect(report((char *[]){ NULL }), CLI_OK, "2 processes", "b.hg");
	unlink("b.hg");
	expect(report((char *[]){ NULL }), CLI_FAILED, NULL, "heapgauge record PROGRAM");
}

static void cut_file_is_shown_with_a_warning(void **state)
{
	(void)state;
	write_recording("cut.hg", 1, 5);
	expect(REPORT(WORD("cut.hg")), CLI_OK, "! ", NULL);
	expect(REPORT(WORD("cut.hg"), WORD("-f"), WORD("json")), CLI_OK, "\"cut_bytes\"", NULL);
	unlink("cut.hg");
}

static void what_cannot_be_read_is_status_1_and_says_why(void **state)
{
	(void)state;
	assert_int_equal(output_file_write("text.hg", span_of("hello", 5), 0644, NULL), 0);
	expect(REPORT(WORD("text.hg")), CLI_FAILED, NULL, "text.hg");
	expect(REPORT(WORD("no-such.hg")), CLI_FAILED, NULL, "No such file");
	expect(REPORT(WORD("/")), CLI_FAILED, NULL, "cannot read");
}

static void wrong_command_line_is_status_2_and_names_the_nearest(void **state)
{
	(void)state;
	expect(REPORT(WORD("--viwe"), WORD("sites")), CLI_USAGE, NULL, "--view");
	expect(REPORT(WORD("--view"), WORD("site")), CLI_USAGE, NULL, "'sites'");
	expect(REPORT(WORD("--view")), CLI_USAGE, NULL, "VIEW");
	expect(REPORT(WORD("--format"), WORD("xml")), CLI_USAGE, NULL, "xml");
	expect(REPORT(WORD("--limit"), WORD("3x")), CLI_USAGE, NULL, "3x");
	expect(REPORT(WORD("--limit"), WORD("-3")), CLI_USAGE, NULL, "-3");
	expect(REPORT(WORD("--bytes=3")), CLI_USAGE, NULL, "yes or no");
	expect(REPORT(WORD("a.hg"), WORD("b.hg")), CLI_USAGE, NULL, "b.hg");
	expect(REPORT(WORD("-z")), CLI_USAGE, NULL, "-z");
	expect(REPORT(WORD("--help")), CLI_OK, "--no-symbols", NULL);
}

static void summary_says_where_it_was_written(void **state)
{
	struct recording unknown = { 0 };
	struct error error = ERROR_INIT;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	write_recording("a.hg", 1, 0);
	assert_int_equal(summary_print(out, "a.hg", &unknown, &error), 0);
	fflush(out);
	assert_int_equal(strncmp(text, "heapgauge: ./server", 19), 0);
	assert_non_null(strstr(text, "wrote a.hg ("));
	assert_non_null(strstr(text, "\n  ! 14 stacks"));
	size_t before = size;

	assert_int_equal(summary_print(out, "no-such.hg", &unknown, &error), -1);
	fflush(out);
	assert_int_equal(size, before);
	assert_non_null(strstr(error.message, "no-such.hg"));
	fclose(out);
	free(text);
}

static void words_after_two_dashes_are_words(void **state)
{
	static const struct option_row rows[] = { { "output", 'o', "FILE", "" },
						  { "quiet", 'q', NULL, "" } };
	char *argv[] = { WORD("record"), WORD("-q"),	  WORD("-oX"),
			 WORD("--"),	 WORD("--quiet"), WORD("-") };
	struct options o = options_over(rows, ARRAY_SIZE(rows), ARRAY_SIZE(argv), argv);
	const char *value;

	(void)state;
	assert_int_equal(options_next(&o, &value, NULL), 1);
	assert_null(value);
	assert_int_equal(options_next(&o, &value, NULL), 0);
	assert_string_equal(value, "X");
	assert_int_equal(options_next(&o, &value, NULL), OPTIONS_WORD);
	assert_string_equal(value, "--quiet");
	assert_int_equal(options_next(&o, &value, NULL), OPTIONS_WORD);
	assert_string_equal(value, "-");
	assert_int_equal(options_next(&o, &value, NULL), OPTIONS_END);
}

static void every_command_has_words_and_a_function(void **state)
{
	(void)state;
	for (size_t i = 0; commands[i]; i++) {
		const struct command *c = commands[i];

		assert_true(c->help && c->help[0] && c->usage && c->run);
		assert_ptr_equal(command_find(c->name), c);
		assert_true(c->option_count <= OPTIONS_MAX);
	}
	assert_null(command_find("no such command"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(report_of_a_file_is_the_same_as_of_the_rows),
		cmocka_unit_test(without_a_file_the_newest_is_taken_and_named),
		cmocka_unit_test(cut_file_is_shown_with_a_warning),
		cmocka_unit_test(what_cannot_be_read_is_status_1_and_says_why),
		cmocka_unit_test(wrong_command_line_is_status_2_and_names_the_nearest),
		cmocka_unit_test(summary_says_where_it_was_written),
		cmocka_unit_test(words_after_two_dashes_are_words),
		cmocka_unit_test(every_command_has_words_and_a_function),
	};

	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
