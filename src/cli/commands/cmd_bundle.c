/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge bundle: stores function names, and source lines if requested, in the recording itself, so that it can
 * be read on a machine that has neither the programs nor their debug information.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/options/query_options.h"
#include "analysis/result/imported.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "model/frames/bundle.h"
#include "util/cleanup.h"
#include "util/output_file.h"
#include "util/repository.h"
#include "util/text/units.h"
#include "util/vector.h"

enum bundle_option {
	OPT_OUTPUT,
	OPT_REDACT,
	OPT_SOURCES,
	OPT_SOURCE_FOLDER,
	OPT_SOURCE_MAP,
	OPT_DEBUG_FOLDER,
	OPT_DEBUGINFOD,
	OPT_DEBUGINFOD_DEADLINE,
	OPT_NO_CACHE,
};

static const struct redaction_word {
	const char *name, *help;
	enum redaction redaction;
} redactions[] = {
	{ "private",
	  "host, user, arguments, options, values of labels, and folders of files that no distribution brought",
	  REDACT_PRIVATE },
	{ "names",
	  "also replace names: of functions, files, modules, tags and marks of the program; without thread names and build-ids",
	  REDACT_NAMES },
	{ NULL, NULL, REDACT_NOTHING },
};

static const struct option_row option_rows[] = {
	[OPT_OUTPUT] = { "output", 'o', "FILE", "write to FILE, and leave the recording unchanged",
			 .fallback = "the recording itself", .scope = OPTION_TYPED_ONLY },
	[OPT_REDACT] = { "redact", 0, "WHAT", "remove what should not be shared; needs -o",
			 .choices = WORDS_WITH_HELP(redactions), .scope = OPTION_TYPED_ONLY },
	[OPT_SOURCES] = { "sources", 0, "N",
			  "include N lines of source before and after each line on a stack",
			  .fallback = "0: no source leaves this machine",
			  .scope = OPTION_TYPED_ONLY },
	[OPT_SOURCE_FOLDER] = { "source-folder", 0, "FOLDER",
				"include source from files below FOLDER; may be repeated",
				.fallback =
					"the git repository that this folder is in, else this folder",
				.scope = OPTION_TYPED_ONLY },
	[OPT_SOURCE_MAP] = SOURCE_MAP_ROW,
	[OPT_DEBUG_FOLDER] = { "debug-folder", 0, "FOLDER",
			       "search FOLDER for debug information first; may be repeated",
			       .group = "Names" },
	[OPT_DEBUGINFOD] = { "debuginfod", 0, NULL,
			     "ask the servers in DEBUGINFOD_URLS for debug information",
			     .group = "Names", .scope = OPTION_NOT_IN_FOLDER },
	[OPT_DEBUGINFOD_DEADLINE] = { "debuginfod-deadline", 0, "SECONDS",
				      "time limit for all requests together", .group = "Names",
				      .fallback = "60" },
	[OPT_NO_CACHE] = { "no-cache", 0, NULL,
			   "neither read nor write the name cache in ~/.cache/heapgauge",
			   .group = "Names" },
};

struct bundle_command {
	const char *path, *output;
	struct bundle_options bundle;
	VECTOR(const char *) source_folders; /* each to be freed */
	struct query_options asked;
};

static int add_source_folder(struct bundle_command *c, const char *folder, struct error *error)
{
	AUTO_FREE char *real = realpath(folder, NULL);

	if (!real)
		return error_errno(error, "cannot read the folder %s", folder);
	if (!vector_push(&c->source_folders, real))
		return error_set(error, "out of memory");
	(void)TAKE(real);
	return 0;
}

/* Adds the project: the repository that contains this folder, else this folder; never "/". */
static int add_project(struct bundle_command *c, struct error *error)
{
	AUTO_FREE char *here = realpath(".", NULL);

	if (!here)
		return error_errno(error, "cannot determine the current folder");
	AUTO_FREE char *root = repository_of(here);
	const char *project = root ? root : here;

	return strcmp(project, "/") == 0 ? 0 : add_source_folder(c, project, error);
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct bundle_command *c = state;
	uint64_t lines;

	switch (option) {
	case OPTIONS_WORD:
		return options_once(&c->path, "recording", value, error);
	case OPT_OUTPUT:
		c->output = value;
		return 0;
	case OPT_REDACT:
		for (const struct redaction_word *word = redactions; word->name; word++)
			if (strcmp(value, word->name) == 0)
				c->bundle.redaction = word->redaction;
		return 0;
	case OPT_SOURCES:
		if (options_number("sources", value, &lines, error) < 0)
			return -1;
		c->bundle.source_lines = (unsigned)MIN(lines, (uint64_t)1000);
		return 0;
	case OPT_SOURCE_FOLDER:
		return add_source_folder(c, value, error);
	case OPT_SOURCE_MAP:
		return query_options_sources(&c->asked, value, error);
	case OPT_DEBUG_FOLDER:
		return query_options_take(&c->asked, QUERY_DEBUG_FOLDER, value, error);
	case OPT_DEBUGINFOD:
		return query_options_take(&c->asked, QUERY_DEBUGINFOD, value, error);
	case OPT_DEBUGINFOD_DEADLINE:
		return query_options_take(&c->asked, QUERY_DEBUGINFOD_DEADLINE, value, error);
	case OPT_NO_CACHE:
		return query_options_take(&c->asked, QUERY_NO_CACHE, value, error);
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

/* The original must stay: it is needed to understand what is said about the copy. */
static int check(void *state, struct error *error)
{
	const struct bundle_command *c = state;

	if (c->bundle.redaction == REDACT_NOTHING)
		return 0;
	if (!c->output)
		return error_set(error,
				 "--redact needs -o FILE: the recording itself stays as it is");
	if (c->bundle.source_lines)
		return error_set(error, "--redact cannot be combined with --sources");
	return 0;
}

static void print_redaction(const struct bundle_command *c)
{
	if (c->bundle.redaction == REDACT_PRIVATE)
		cli_error(
			"host, user, arguments and folders are removed; names of functions, files, "
			"modules, tags and threads remain, and so do kernel, times, pids and all numbers");
	else if (c->bundle.redaction == REDACT_NAMES)
		cli_error(
			"host, user, arguments, folders and the program's own names are removed; kernel, "
			"times, pids, offsets in modules, names of the distribution's libraries and all "
			"numbers remain");
}

static void say(const struct bundle_counts *counts, const char *output)
{
	cli_error("%s of %s frames are named in %s%s%s%s", units_count(counts->named).text,
		  units_count(counts->frames).text, output, counts->source_lines ? ", with " : "",
		  counts->source_lines ? units_count(counts->source_lines).text : "",
		  counts->source_lines ? " lines of source" : "");
	if (counts->outside_files)
		cli_error("source of %s %s outside the project was not included; --source-folder "
			  "FOLDER includes it",
			  units_count(counts->outside_files).text,
			  counts->outside_files == 1 ? "file" : "files");
}

static int bundle(void *state, const struct common_options *common, struct error *error)
{
	struct bundle_command *c = state;
	AUTO_FREE char *recording = recording_path(c->path, error);
	struct profile *profile = recording ? recording_open(recording, error) : NULL;
	struct bundle_counts counts;
	int status = -1;

	(void)common;
	if (!profile)
		return -1;
	const char *input = recording;

	if (c->output && output_file_check(c->output, &input, 1, error) < 0) {
		profile_free(profile);
		return -1;
	}
	if (profile_is_imported(profile)) {
		profile_free(profile);
		return error_set(error, "a heap profile of another tool cannot be bundled, "
					"only a recording");
	}
	if (c->bundle.source_lines && c->source_folders.count == 0 && add_project(c, error) < 0) {
		profile_free(profile);
		return -1;
	}
	c->bundle.sources = c->asked.sources;
	c->bundle.source_folders = c->source_folders.at;
	c->bundle.source_folder_count = c->source_folders.count;
	/* The reader chooses the style: store raw names, which all styles are derived from. */
	c->asked.names.style = NAMES_RAW;
	const char *output = c->output ? c->output : recording;
	struct names *names = names_new(&c->asked.names);

	if (names)
		status = bundle_write(profile, names, &c->bundle, output, &counts, error);
	else
		error_set(error, "out of memory");
	if (status == 0) {
		say(&counts, output);
		print_redaction(c);
	}
	names_free(names);
	profile_free(profile);
	return status;
}

static int run_bundle(int argc, char **argv)
{
	struct bundle_command c = { .asked = query_options_init() };
	const struct command_steps steps = { take_option, check, bundle };
	int status = command_run(&command_bundle, &steps, &c, argc, argv);

	for (size_t i = 0; i < c.source_folders.count; i++)
		free((char *)(uintptr_t)c.source_folders.at[i]);
	vector_release(&c.source_folders);
	query_options_release(&c.asked);
	return status;
}

static const char *const examples[] = {
	"heapgauge bundle run.hg",
	"add the names to run.hg, to read it on another machine",
	"heapgauge bundle --sources 3 -o shared.hg run.hg",
	"the same in another file, with three lines of source around each location",
	"heapgauge bundle --redact names -o shared.hg run.hg",
	"to share it outside: function12 instead of the program's names, no host, user, arguments or folders",
	NULL,
};

const struct command command_bundle = {
	.name = "bundle",
	.usage = "[FILE] [options]",
	.help = "add function names to a recording, to read it elsewhere",
	.run = run_bundle,
	.group = COMMANDS_SHARE,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about =
		"Looks up the names of all frames on this machine, where the programs are, and stores them in the "
		"recording FILE, or in the newest one in this folder. It can then be read anywhere.\n\n"
		"Source code is included only with --sources, and only from files in the git repository around this "
		"folder (or in this folder, if there is none), or below a --source-folder.\n\n"
		"With --redact, the copy can be shared without telling where and by whom the program was run. A name is "
		"replaced by a number, the same one everywhere in the recording. Numbers of sites and pids stay, so that "
		"an answer about the copy can be found in the original.",
	.examples = examples,
};
