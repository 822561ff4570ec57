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
#include "cli/output.h"
#include "collect/inspect.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { TEXT_STACK_FRAMES = 8 };

enum report_option { OPT_VIEW, OPT_FORMAT, OPT_PID, OPT_LIMIT, OPT_BYTES, OPT_NO_SYMBOLS };

static const struct option_row option_rows[] = {
	[OPT_VIEW] = { "view", 'v', "VIEW", "which question to answer",
		       .choices = WORDS_WITH_HELP(analyses), .fallback = "summary" },
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "how to write it",
			 .choices = WORDS_WITH_HELP(renderers), .fallback = "text" },
	[OPT_PID] = { "pid", 'p', "PID", "read the running process PID instead of a FILE",
		      .scope = OPTION_TYPED_ONLY },
	[OPT_LIMIT] = { "limit", 'n', "N", "show at most N rows",
			.fallback = "text: 20, json: all" },
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
		report->show.view = analysis_find(value);
		return 0;
	case OPT_FORMAT:
		report->show.renderer = renderer_find(value);
		return 0;
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

static int show_report(struct report *report, const struct common_options *wishes,
		       struct error *error)
{
	AUTO_FREE char *name = NULL;
	struct profile *profile = open_either(report, &name, error);

	if (!profile)
		return -1;
	if (!report->limit_given)
		report->show.query.limit = report->show.renderer->default_limit;
	report->show.query.file = name;
	report->show.render.stack_frames = TEXT_STACK_FRAMES;
	struct output output = output_open(wishes);

	report->show.render.columns = output.cut_columns;
	report->show.render.colours = output.colours;
	report->show.render.utf8 = output.utf8;
	int status = show_profile(output.file, profile, &report->show, error);

	profile_free(profile);
	return output_close(&output, status, error);
}

static int run_report(int argc, char **argv)
{
	struct report report = { .show = { .view = &analyses[0], .renderer = &renderers[0] } };
	struct options options = options_over(option_rows, ARRAY_SIZE(option_rows), argc, argv);
	struct error error = ERROR_INIT;
	const char *value;
	int option;

	while ((option = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (option == OPTIONS_HELP)
			return command_show_help(&command_report);
		if (take_option(&report, option, value, &error) < 0)
			return cli_usage_error("report", "%s", error.message);
	}
	if (report.pid && report.path)
		return cli_usage_error("report", "either --pid or a recording, not both");
	if (show_report(&report, &options.common, &error) < 0) {
		cli_error("%s", error.message);
		return CLI_FAILED;
	}
	return CLI_OK;
}

static const char *const examples[] = {
	"heapgauge report",
	"the summary of the newest recording in this folder",
	"heapgauge report run.hg --view sites --limit 5",
	"the five heaviest stacks",
	"heapgauge report run.hg --view sites --format json",
	"every stack with all its numbers, for a script",
	NULL,
};

const struct command command_report = {
	.name = "report",
	.usage = "[FILE | --pid PID] [options]",
	.help = "answer questions about a recording",
	.run = run_report,
	.group = COMMANDS_LOOK,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about = "Answers a question about the recording FILE, or the newest one in this folder.",
	.examples = examples,
};
