/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge report: one view of a recording, as text or JSON, on stdout.
 *
 * Views and formats are the rows of analysis/ and render/: a new one appears here by itself, in the
 * help as well.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/open.h"
#include "cli/options.h"
#include "collect/inspect.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/terminal.h"

enum { TEXT_STACK_FRAMES = 8 };

enum report_option { OPT_VIEW, OPT_FORMAT, OPT_PID, OPT_LIMIT, OPT_BYTES, OPT_NO_SYMBOLS };

static const struct option_row option_rows[] = {
	[OPT_VIEW] = { "view", 'v', "VIEW", "which question to answer (see below)" },
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "how to write it (see below)" },
	[OPT_PID] = { "pid", 'p', "PID", "read the running process PID instead of a FILE" },
	[OPT_LIMIT] = { "limit", 'n', "N", "show at most N rows (text: 20, json: all)" },
	[OPT_BYTES] = { "bytes", 'b', NULL, "bytes with all their digits" },
	[OPT_NO_SYMBOLS] = { "no-symbols", 0, NULL,
			     "frames as module+offset: nothing is looked up" },
};

struct report {
	const char *path;
	pid_t pid; /* 0: a file */
	struct show show;
	bool limit_given;
};

static int print_help(void)
{
	printf("usage: heapgauge report [FILE | --pid PID] [options]\n\n"
	       "Answers a question about the recording FILE, or the newest one in this folder.\n\n");
	options_print(stdout, option_rows, ARRAY_SIZE(option_rows));
	printf("\nviews:\n");
	for (const struct analysis *a = analyses; a->name; a++)
		printf("  %-24s %s\n", a->name, a->help);
	printf("\nformats:\n");
	for (const struct renderer *r = renderers; r->name; r++)
		printf("  %-24s %s\n", r->name, r->help);
	return CLI_OK;
}

static int choose_view(struct report *report, const char *name, struct error *error)
{
	const char *names[64] = { 0 };

	report->show.view = analysis_find(name);
	if (report->show.view)
		return 0;
	for (size_t i = 0; analyses[i].name && i < ARRAY_SIZE(names); i++)
		names[i] = analyses[i].name;
	const char *near = nearest_name(name, names, ARRAY_SIZE(names));

	if (near)
		return error_set(error, "there is no view '%s'; did you mean '%s'?", name, near);
	return error_set(error, "there is no view '%s'", name);
}

static int choose_format(struct report *report, const char *name, struct error *error)
{
	report->show.renderer = renderer_find(name);
	if (!report->show.renderer)
		return error_set(error, "there is no format '%s'", name);
	return 0;
}

static int take_word(struct report *report, const char *word, struct error *error)
{
	if (report->path)
		return error_set(error, "one recording at a time: '%s' or '%s'?", report->path,
				 word);
	report->path = word;
	return 0;
}

static int take_limit(struct report *report, const char *text, struct error *error)
{
	uint64_t limit;

	if (options_number("limit", text, &limit, error) < 0)
		return -1;
	report->show.query.limit = limit > SIZE_MAX ? SIZE_MAX : (size_t)limit;
	report->limit_given = true;
	return 0;
}

static int take_pid(struct report *report, const char *text, struct error *error)
{
	uint64_t pid;

	if (options_number("pid", text, &pid, error) < 0)
		return -1;
	if (pid == 0 || pid > INT32_MAX)
		return error_set(error, "--pid takes the number of a process, not %s", text);
	report->pid = (pid_t)pid;
	return 0;
}

static int take_option(struct report *report, int option, const char *value, struct error *error)
{
	switch (option) {
	case OPTIONS_WORD:
		return take_word(report, value, error);
	case OPT_VIEW:
		return choose_view(report, value, error);
	case OPT_FORMAT:
		return choose_format(report, value, error);
	case OPT_PID:
		return take_pid(report, value, error);
	case OPT_LIMIT:
		return take_limit(report, value, error);
	case OPT_BYTES:
		report->show.render.exact_bytes = true;
		return 0;
	case OPT_NO_SYMBOLS:
		report->show.no_symbols = true;
		return 0;
	default:
		return -1; /* OPTIONS_ERROR: the error is set */
	}
}

/* The profile of a running process, and what it is called in the report. */
static struct profile *open_process(pid_t pid, char **ret_name, struct error *error)
{
	struct recording recording = { 0 };

	if (inspect_process(pid, HEAPGAUGE_VERSION, &recording, error) < 0)
		return NULL;
	if (asprintf(ret_name, "process %d", (int)pid) < 0) {
		*ret_name = NULL;
		recording_release(&recording);
		error_set(error, "out of memory");
		return NULL;
	}
	return profile_new(&recording, error);
}

static struct profile *open_either(const struct report *report, char **ret_name,
				   struct error *error)
{
	if (report->pid)
		return open_process(report->pid, ret_name, error);
	*ret_name = recording_path(report->path, error);
	return *ret_name ? recording_open(*ret_name, error) : NULL;
}

static int run_report(struct report *report, struct error *error)
{
	AUTO_FREE char *name = NULL;
	struct profile *profile = open_either(report, &name, error);

	if (!profile)
		return -1;
	struct terminal terminal = terminal_of(STDOUT_FILENO);

	if (!report->limit_given)
		report->show.query.limit = report->show.renderer->default_limit;
	report->show.query.file = name;
	report->show.render.stack_frames = TEXT_STACK_FRAMES;
	/* What goes into a file or a pipe is not cut to a width that nobody sees. */
	report->show.render.columns = terminal.is_tty ? terminal.columns : 0;
	int status = show_profile(stdout, profile, &report->show, error);

	profile_free(profile);
	return status;
}

int cmd_report(int argc, char **argv)
{
	struct report report = { .show = { .view = &analyses[0], .renderer = &renderers[0] } };
	struct options options = options_over(option_rows, ARRAY_SIZE(option_rows), argc, argv);
	struct error error = ERROR_INIT;
	const char *value;
	int option;

	while ((option = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (option == OPTIONS_HELP)
			return print_help();
		if (take_option(&report, option, value, &error) < 0)
			return cli_usage_error("report", "%s", error.message);
	}
	if (report.pid && report.path)
		return cli_usage_error("report", "either --pid or a recording, not both");
	if (run_report(&report, &error) < 0) {
		cli_error("%s", error.message);
		return CLI_FAILED;
	}
	return CLI_OK;
}
