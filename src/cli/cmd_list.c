/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge list: the recorded processes of this machine, what each holds and who asked for most of it.
 *
 * Each is read as `report --pid` reads it, but for its block map. A process that is recorded and may not be read is shown
 * all the same, with the reason; those that may not even be looked into are counted.
 */
#include <stdio.h>

#include "analysis/listing.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "collect/container.h"
#include "collect/inspect.h"
#include "collect/procfs.h"
#include "model/build.h"
#include "render/renderers.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { OPT_FORMAT, OPT_BYTES, OPT_NO_SYMBOLS };

static const struct option_row rows[] = {
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "how to write it",
			 .choices = WORDS_WITH_HELP(renderers), .fallback = "text" },
	[OPT_BYTES] = { "bytes", 'b', NULL, "bytes with all their digits" },
	[OPT_NO_SYMBOLS] = { "no-symbols", 0, NULL,
			     "frames as module+offset: nothing is looked up" },
};

/* Names are looked for where the process has its files. */
static int add_profile(struct listing *listing, struct listed *one,
		       const struct names_options *names_options, struct error *error)
{
	struct names *names = names_new(names_options);
	int status = -1;

	one->places = names ? places_new(names) : NULL;
	if (one->places)
		status = listing_add(listing, one, error);
	else
		error_set(error, "out of memory");
	places_free(one->places);
	names_free(names);
	return status;
}

/* One that has ended meanwhile, or is a fork without a profile of its own, is not listed. */
static int add_process(struct listing *listing, struct copied *copied,
		       const struct recorded *recorded, struct names_options names,
		       struct error *error)
{
	AUTO_FREE char *exe = procfs_exe(recorded->pid), *command = procfs_command(recorded->pid);
	AUTO_FREE char *container = container_name(recorded->pid);
	AUTO_FREE char *root = container_root(recorded->pid);
	struct listed one = { .pid = recorded->pid,
			      .program = exe && exe[0] ? path_base(exe) : NULL,
			      .command = command,
			      .container = container };
	struct recording recording = { 0 };
	struct error problem = ERROR_INIT;
	int status = inspect_recorded(copied, recorded, COPIED_COUNTERS, HEAPGAUGE_VERSION,
				      &recording, &problem);

	if (status == COPIED_NOTHING)
		return 0;
	struct profile *profile = status == 0 ? profile_new(&recording, &problem) : NULL;

	one.profile = profile;
	one.problem = profile ? NULL : problem.message;
	names.root = root;
	status = profile ? add_profile(listing, &one, &names, error)
			 : listing_add(listing, &one, error);
	profile_free(profile);
	return status;
}

static const struct result *list_all(struct listing *listing, const struct names_options *names,
				     struct error *error)
{
	AUTO(recorded_list_release) struct recorded_list recorded = { 0 };
	AUTO(copied_release) struct copied copied = COPIED_INIT; /* room for one after the other */

	if (recorded_list(&recorded, error) < 0)
		return NULL;
	for (size_t i = 0; i < recorded.found.count; i++)
		if (add_process(listing, &copied, &recorded.found.at[i], *names, error) < 0)
			return NULL;
	return listing_end(listing, recorded.hidden, error);
}

static void free_listing(struct listing **listing)
{
	listing_free(*listing);
}

static int write_file(void *context, struct span bytes, struct error *error)
{
	if (fwrite(bytes.data, 1, bytes.size, context) != bytes.size)
		return error_errno(error, "cannot write the list");
	return 0;
}

struct wishes {
	const struct renderer *renderer;
	struct names_options names;
	bool exact_bytes;
};

static int show_list(const struct wishes *wishes, const struct common_options *common,
		     struct error *error)
{
	AUTO(free_listing) struct listing *listing = listing_new();
	const struct result *result = NULL;

	if (listing)
		result = list_all(listing, &wishes->names, error);
	else
		error_set(error, "out of memory");
	if (!result)
		return -1;
	struct output output = output_open(common);
	struct render_output out = { .write = write_file, .context = output.file };
	const struct render_options options = { .exact_bytes = wishes->exact_bytes,
						.columns = output.cut_columns,
						.colours = output.colours,
						.utf8 = output.utf8 };
	int status = wishes->renderer->run(result, &options, &out, error);

	buffer_release(&out.buffer);
	return output_close(&output, status, error);
}

static int run_list(int argc, char **argv)
{
	struct options options = options_over(rows, ARRAY_SIZE(rows), argc, argv);
	struct wishes wishes = {
		.renderer = &renderers[0],
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
	};
	struct error error = ERROR_INIT;
	const char *value;
	int got;

	while ((got = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (got == OPTIONS_HELP)
			return command_show_help(&command_list);
		if (got == OPTIONS_ERROR)
			return cli_usage_error("list", "%s", error.message);
		if (got == OPTIONS_WORD)
			return cli_usage_error("list", "list takes no '%s'", value);
		if (got == OPT_FORMAT)
			wishes.renderer = renderer_find(value);
		else if (got == OPT_BYTES)
			wishes.exact_bytes = true;
		else
			wishes.names.use_symbols = false;
	}
	if (show_list(&wishes, &options.common, &error) < 0) {
		cli_error("%s", error.message);
		return CLI_FAILED;
	}
	return CLI_OK;
}

static const char *const examples[] = {
	"heapgauge list",
	"who is recorded here, and what each holds",
	"sudo heapgauge list --format json",
	"those of all users, with all numbers, for a script",
	NULL,
};

const struct command command_list = {
	.name = "list",
	.usage = "[options]",
	.help = "show the recorded processes of this machine",
	.run = run_list,
	.group = COMMANDS_LOOK,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_NONE,
	.about =
		"Lists every running process that has a live profile, those in containers too: how it is "
		"recorded, what it holds, and the site that holds most. Processes are read and not "
		"stopped. What may not be read is said.",
	.examples = examples,
};
