/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge report: prints one view of a recording as text or JSON to stdout, or writes all views as a page.
 *
 * Views and formats are the rows of analysis/ and render/; a new row appears here and in the help by itself.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/query_options.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "cli/options/options.h"
#include "cli/web/web.h"
#include "collect/kernel/container.h"
#include "util/cleanup.h"
#include "util/output_file.h"

enum report_option {
	OPT_VIEW = QUERY_COUNT,
	OPT_FORMAT,
	OPT_OUTPUT,
	OPT_PID,
	OPT_BYTES,
	OPT_MAX_TOKENS,
	OPT_SOURCE,
	OPT_SOURCE_MAP,
};

static const struct option_row option_rows[] = {
	[OPT_VIEW] = { "view", 'v', "VIEW", "which view to show",
		       .choices = WORDS_WITH_HELP(analyses),
		       .fallback = "summary; sites with --cost or a filter; functions with --by" },
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format",
			 .choices = WORDS_WITH_HELP(renderers), .fallback = "text" },
	[OPT_OUTPUT] = { "output", 'o', "FILE", "write to FILE instead of stdout",
			 .scope = OPTION_TYPED_ONLY },
	[OPT_PID] = { "pid", 'p', "PID", "read the running process PID instead of a FILE",
		      .scope = OPTION_TYPED_ONLY },
	[OPT_BYTES] = { "bytes", 'b', NULL, "show exact byte counts" },
	[OPT_MAX_TOKENS] = { "max-tokens", 0, "N",
			     "with --format markdown: at most N tokens, of 4 bytes each" },
	[OPT_SOURCE] = { "source", 0, NULL, "with --by line: show the text of each line",
			 .group = "What to show" },
	[OPT_SOURCE_MAP] = SOURCE_MAP_ROW,
	QUERY_ROWS,
};

struct report {
	const char *path;
	pid_t pid;	    /* 0: a file */
	const char *output; /* NULL: stdout */
	struct show show;
	struct query_options asked;
	bool view_given, shows_source;
	uint64_t typed; /* bits of enum query_option: given on the command line, not in settings */
};

static int take_word(struct report *report, const char *word, struct error *error)
{
	if (analysis_find(word) && access(word, F_OK) < 0)
		return error_set(error, "%s is a view and not a recording: write --view %s", word,
				 word);
	return options_once(&report->path, "recording", word, error);
}

static int take_tokens(struct report *report, const char *value, struct error *error)
{
	enum { LEAST = 100, MOST = 1000000, TOKEN_BYTES = 4 };
	uint64_t tokens;

	if (options_number("max-tokens", value, &tokens, error) < 0)
		return -1;
	if (tokens < LEAST || tokens > MOST)
		return error_set(error, "--max-tokens takes %d to %d, not '%s'", LEAST, MOST,
				 value);
	report->show.render.max_bytes = (size_t)tokens * TOKEN_BYTES;
	return 0;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct report *report = state;

	switch (option) {
	case OPTIONS_WORD:
		return take_word(report, value, error);
	case OPT_VIEW:
		report->view_given = true;
		report->show.view = analysis_find(value);
		return 0;
	case OPT_FORMAT:
		report->show.renderer = renderer_find(value);
		return 0;
	case OPT_PID:
		return options_pid("pid", value, &report->pid, error);
	case OPT_OUTPUT:
		report->output = value;
		return 0;
	case OPT_BYTES:
		report->show.render.exact_bytes = true;
		return 0;
	case OPT_MAX_TOKENS:
		return take_tokens(report, value, error);
	case OPT_SOURCE:
		report->shows_source = true;
		return query_options_sources(&report->asked, NULL, error);
	case OPT_SOURCE_MAP:
		return query_options_sources(&report->asked, value, error);
	default:
		if (!options_origin())
			report->typed |= UINT64_C(1) << option;
		if (option < QUERY_COUNT)
			return query_options_take(&report->asked, (enum query_option)option, value,
						  error);
		return error_set(error, "internal error: unhandled option");
	}
}

static struct profile *open_either(const struct report *report, char **ret_name,
				   struct error *error)
{
	if (report->pid)
		return process_open(report->pid,
				    report->view_given && report->show.view->needs_pages, ret_name,
				    error);
	*ret_name = recording_path(report->path, error);
	return *ret_name ? recording_open(*ret_name, error) : NULL;
}

static int write_to_file(struct report *report, const struct profile *profile, const char *name,
			 struct error *error)
{
	const char *inputs[] = { report->pid ? NULL : name,
				 report->asked.query.filters.suppression_path };
	AUTO(output_file_abort) struct output_file out = OUTPUT_FILE_INIT;

	if (output_file_open(&out, report->output, inputs, ARRAY_SIZE(inputs), error) < 0 ||
	    show_profile(out.stream, profile, &report->show, error) < 0)
		return -1;
	return output_file_commit(&out, error);
}

/* ---- the page as a file ---- */

/* Rejects query options: on a page the user chooses them there. */
static int check_page(const struct report *report, struct error *error)
{
	static const struct option_row questions[] = { QUERY_QUESTION_ROWS };

	if (report->view_given)
		return error_set(error, "a page contains all views: omit --view");
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
		if (questions[i].name && (report->typed >> i & 1))
			return error_set(
				error,
				"a page contains the whole recording: omit --%s and choose "
				"it in the page",
				questions[i].name);
	if (!report->output && isatty(STDOUT_FILENO))
		return error_set(error, "HTML is not written to a terminal: name a file with -o");
	return 0;
}

/* Takes ownership of the profile. */
static int write_page(const struct report *report, struct profile *profile, const char *name,
		      struct error *error)
{
	const char *inputs[] = { report->pid ? NULL : name,
				 report->asked.query.filters.suppression_path };
	AUTO(web_release) struct web web = { .asked = &report->asked };
	AUTO(buffer_release) struct buffer page = BUFFER_INIT;

	if (web_adopt(&web, profile, name, error) < 0 ||
	    (report->output &&
	     output_file_check(report->output, inputs, ARRAY_SIZE(inputs), error) < 0) ||
	    web_save(&web, &page, error) < 0)
		return -1;
	if (report->output)
		return output_file_write(report->output, buffer_span(&page), 0666, error);
	return fwrite(page.data, 1, page.size, stdout) == page.size
		       ? 0
		       : error_errno(error, "cannot write the page");
}

static int show_report(void *state, const struct common_options *common, struct error *error)
{
	struct report *report = state;
	AUTO_FREE char *name = NULL, *again = report_again(report->path, report->pid);
	AUTO_FREE char *root = report->pid ? container_root(report->pid) : NULL;
	struct profile *profile =
		profile_requested(open_either(report, &name, error), &report->asked, error);

	if (!profile)
		return -1;
	if (!report->show.renderer->run)
		return write_page(report, profile, name, error);
	if (!report->view_given)
		report->show.view = query_options_default_view(&report->asked, false);
	report->asked.query.file = name;
	report->asked.query.again = again;
	show_asked(&report->show, &report->asked);
	report->show.names.root = root;
	if (query_options_check_typed(report->show.view, report->typed, false, error) < 0 ||
	    analysis_check(report->show.view, report->show.query, error) < 0) {
		profile_free(profile);
		return -1;
	}
	int status = report->output ? write_to_file(report, profile, name, error)
				    : show_on_output(profile, &report->show, common, error);

	profile_free(profile);
	return status;
}

static int check_source(struct report *report, struct error *error)
{
	const struct query *query = &report->asked.query;
	bool page = !report->show.renderer->run;

	if (report->shows_source && (page || !query->has_axis || query->by != AXIS_LINE))
		return error_set(error, "--source needs --by line");
	if (report->asked.sources && !report->shows_source && !page)
		return error_set(error, "--source-map needs --source, or --format html");
	report->asked.query.sources = report->shows_source ? report->asked.sources : NULL;
	return 0;
}

static int check(void *state, struct error *error)
{
	struct report *report = state;

	if (check_source(report, error) < 0)
		return -1;
	if (report->pid && report->path)
		return error_set(error,
				 "either --pid or a recording, not both; of a recording, --process "
				 "chooses one");
	if (report->show.render.max_bytes && report->show.renderer->run != render_markdown)
		return error_set(error, "--max-tokens needs --format markdown");
	return report->show.renderer->run ? 0 : check_page(report, error);
}

static int run_report(int argc, char **argv)
{
	struct report report = { .show = { .view = &analyses[0], .renderer = &renderers[0] },
				 .asked = query_options_init() };
	const struct command_steps steps = { take_option, check, show_report };
	int status = command_run(&command_report, &steps, &report, argc, argv);

	query_options_release(&report.asked);
	return status;
}

static const char *const examples[] = {
	"heapgauge report",
	"the summary of the newest recording in this folder",
	"heapgauge report run.hg --view tree --cost leaked",
	"call tree by bytes not freed",
	"heapgauge report run.hg --by module --cost calls",
	"how often each library allocates",
	"heapgauge report run.hg --view sites --format json",
	"every stack with all its numbers, for scripts",
	"heapgauge report run.hg --format markdown --max-tokens 500",
	"the verdict, the largest owners and the next command, for an issue or a coding agent",
	"heapgauge report run.hg --format html -o run.html",
	"the page of 'heapgauge view' as one self-contained file",
	NULL,
};

const struct command command_report = {
	.name = "report",
	.usage = "[FILE | --pid PID] [options]",
	.help = "show a recording as text, JSON, CSV or HTML",
	.run = run_report,
	.group = COMMANDS_LOOK,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about =
		"Shows a view of the recording FILE, or of the newest one in this folder. FILE may "
		"also be a heap profile of jemalloc (.heap) or pprof (.pb.gz), as for view, diff, "
		"check and export.",
	.examples = examples,
};
