/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge export: writes a recording in the format of another tool.
 *
 * The formats are the rows of export/; a new row appears here by itself. What a format cannot represent is reported
 * on stderr, with the name of the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/result/imported.h"
#include "base/compiler.h"
#include "cli/options/query_options.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "export/exporters.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/text/printable.h"
#include "util/text/units.h"

enum export_option { OPT_FORMAT = QUERY_COUNT, OPT_OUTPUT };

static const struct option_row option_rows[] = {
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format",
			 .choices = WORDS_WITH_HELP(exporters), .scope = OPTION_TYPED_ONLY },
	[OPT_OUTPUT] = { "output", 'o', "FILE", "write to FILE, or to stdout if it is -",
			 .fallback = "the recording's name with another extension",
			 .scope = OPTION_TYPED_ONLY },
	QUERY_ROWS,
};

struct export_command {
	const char *path, *output;
	const struct exporter *exporter;
	struct query_options asked;
	uint64_t typed; /* bits of enum query_option: given on the command line, not in settings */
};

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct export_command *c = state;

	if (option >= 0 && option < QUERY_COUNT) {
		if (!options_origin())
			c->typed |= UINT64_C(1) << option;
		return query_options_take(&c->asked, (enum query_option)option, value, error);
	}
	switch (option) {
	case OPTIONS_WORD:
		return options_once(&c->path, "recording", value, error);
	case OPT_FORMAT:
		c->exporter = exporter_find(value);
		return 0;
	case OPT_OUTPUT:
		c->output = value;
		return 0;
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

/* Rejects options that the format cannot honour: the file would be mistaken for one that does. */
static int check_question(const struct export_command *c, struct error *error)
{
	static const struct {
		enum query_option option;
		enum export_takes needs;
	} rows[] = {
		{ QUERY_COST, TAKES_COST },
		{ QUERY_AT, TAKES_MOMENT },
		{ QUERY_MINUS, TAKES_MOMENT },
		{ QUERY_LIMIT, TAKES_LIMIT },
		{ QUERY_THRESHOLD, TAKES_THRESHOLD },
		{ QUERY_BY, TAKES_NOTHING_SUCH },
		{ QUERY_CALLEES, TAKES_NOTHING_SUCH },
		{ QUERY_DEPTH, TAKES_NOTHING_SUCH },
		{ QUERY_FOLD_RECURSION, TAKES_NOTHING_SUCH },
		{ QUERY_FOLD_LIBRARIES, TAKES_NOTHING_SUCH },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (c->typed >> rows[i].option & 1 && !(c->exporter->takes & rows[i].needs))
			return error_set(error, "--%s has no effect on the format %s",
					 option_rows[rows[i].option].name, c->exporter->name);
	if (filters_look_at(&c->asked.query.filters, RULE_FREED_IN))
		return error_set(error, "exports do not have who frees: omit --freed-in, "
					"or use 'heapgauge report --view freed-by'");
	if (c->asked.query.second_word)
		return error_set(error, "--cost takes one number here, not two");
	return 0;
}

static void ask_format(struct error *error)
{
	AUTO(buffer_release) struct buffer names = BUFFER_INIT;

	for (const struct exporter *e = exporters; e->name; e++)
		buffer_printf(&names, "%s%s",
			      e == exporters ? ""
			      : e[1].name    ? ", "
					     : " or ",
			      e->name);
	const char *list = buffer_string(&names);

	error_set(error, "missing --format: it takes %s", list ? list : "its name");
}

static int check(void *state, struct error *error)
{
	const struct export_command *c = state;

	if (!c->exporter) {
		ask_format(error);
		return -1;
	}
	return check_question(c, error);
}

/* "run.hg" -> "run.pb.gz". */
static char *output_name(const char *recording, const char *suffix, struct error *error)
{
	size_t length = strlen(recording);
	char *name;

	if (length > 3 && strcmp(recording + length - 3, ".hg") == 0)
		length -= 3;
	if (asprintf(&name, "%.*s%s", (int)length, recording, suffix) < 0) {
		error_set(error, "out of memory");
		return NULL;
	}
	return name;
}

/* Exports are not written for terminals: names in them may contain escape sequences. */
static int write_to_terminal(struct span text, struct error *error)
{
	AUTO(buffer_release) struct buffer shown = BUFFER_INIT;

	buffer_printable_lines(&shown, text);
	return shown.failed ? error_set(error, "out of memory")
			    : file_write_all(STDOUT_FILENO, buffer_span(&shown), "stdout", error);
}

static int write_to(const struct export_command *c, const struct export_input *input,
		    const char *path, struct error *error)
{
	const struct query *query = &c->asked.query;
	const char *inputs[] = { query->file, query->filters.suppression_path };
	AUTO(output_file_abort) struct output_file out = OUTPUT_FILE_INIT;
	bool to_stdout = strcmp(path, "-") == 0;

	if (output_file_open(&out, to_stdout ? "/dev/stdout" : path, inputs, ARRAY_SIZE(inputs),
			     error) < 0 ||
	    c->exporter->run(input, out.stream, error) < 0)
		return -1;
	if (to_stdout && isatty(STDOUT_FILENO) && fflush(out.stream) == 0)
		return write_to_terminal(span_of(out.bytes, out.size), error);
	return output_file_commit(&out, error);
}

static int export_profile(const struct export_command *c, const struct profile *profile,
			  const char *path, struct error *error)
{
	struct names *names = names_new(&c->asked.names);
	struct locations *locations = names ? locations_new(names) : NULL;
	struct selection selection;
	int status = -1;

	if (!locations) {
		error_set(error, "out of memory");
	} else if (selection_make(&selection, profile, locations, &c->asked.query,
				  (struct view_defaults){ .cost = COST_LIVE,
							  .at = MOMENT_END,
							  .kinds = c->exporter->kinds },
				  error) == 0) {
		const struct export_input input = { .profile = profile,
						    .locations = locations,
						    .query = &c->asked.query,
						    .selection = &selection };

		status = write_to(c, &input, path, error);
		selection_release(&selection);
	}
	locations_free(locations);
	names_free(names);
	return status;
}

/* Other formats have no place for what is wrong with the recording, of which reports tell. */
static void print_warnings(struct profile_notes warnings)
{
	for (size_t i = 0; i < warnings.count; i++)
		cli_error("%s %s", units_count(warnings.at[i].count).text, warnings.at[i].text);
}

static int export_recording(void *state, const struct common_options *common, struct error *error)
{
	struct export_command *c = state;
	AUTO_FREE char *recording = recording_path(c->path, error);
	AUTO_FREE char *made = NULL;

	(void)common;
	if (!recording)
		return -1;
	if (!c->output)
		made = output_name(recording, c->exporter->suffix, error);
	const char *output = c->output ? c->output : made;
	struct profile *profile =
		output ? profile_requested(recording_open(recording, error), &c->asked, error)
		       : NULL;

	if (!profile)
		return -1;
	if (c->exporter->needs_run && profile_is_imported(profile)) {
		profile_free(profile);
		return error_set(error,
				 "%s files have frees and lifetimes, which are not known of a heap "
				 "profile of another tool",
				 c->exporter->name);
	}
	if (!c->asked.limit_given)
		c->asked.query.limit = SIZE_MAX;
	c->asked.query.must_match = true;
	c->asked.query.file = recording;
	int status = export_profile(c, profile, output, error);
	bool sampled = false;

	for (size_t i = 0; i < profile->process_count; i++)
		sampled |= profile->processes[i].interval != 0;
	if (status == 0 && strcmp(output, "-") != 0)
		cli_error("wrote %s", output);
	if (status == 0)
		print_warnings(profile->warnings);
	profile_free(profile);
	if (status == 0 && c->exporter->lost)
		cli_error("%s", c->exporter->lost);
	if (status == 0 && sampled)
		cli_error("%s", c->exporter->errors);
	return status;
}

static int run_export(int argc, char **argv)
{
	struct export_command c = { .asked = query_options_init() };
	const struct command_steps steps = { take_option, check, export_recording };
	int status = command_run(&command_export, &steps, &c, argc, argv);

	query_options_release(&c.asked);
	return status;
}

static const char *const examples[] = {
	"heapgauge export run.hg --format pprof --at peak",
	"run.pb.gz with what was live at the peak",
	"heapgauge export run.hg -f folded -c leaked -o - | inferno-flamegraph > leaks.svg",
	"a flame graph of what was not freed",
	NULL,
};

const struct command command_export = {
	.name = "export",
	.usage = "[FILE] --format FORMAT [options]",
	.help = "write a recording in another tool's format",
	.run = run_export,
	.group = COMMANDS_SHARE,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about =
		"Writes the recording FILE, or the newest one in this folder, in the format of another tool.",
	.examples = examples,
};
