/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge list: the recorded processes of this machine, what each holds and who asked for most of it.
 */
#include <stdio.h>

#include "analysis/views/listing.h"
#include "cli/commands.h"
#include "cli/list_processes.h"
#include "cli/open.h"
#include "cli/options/options.h"
#include "render/renderers.h"
#include "util/cleanup.h"

enum { OPT_FORMAT, OPT_BYTES, OPT_NO_SYMBOLS };

static const struct option_row rows[] = {
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "how to write it",
			 .choices = WORDS_WITH_HELP(renderers), .fallback = "text" },
	[OPT_BYTES] = { "bytes", 'b', NULL, "exact byte counts" },
	[OPT_NO_SYMBOLS] = { "no-symbols", 0, NULL,
			     "frames as module+offset: nothing is looked up" },
};

static void free_listing(struct listing **listing)
{
	listing_free(*listing);
}

struct requests {
	const struct renderer *renderer;
	struct names_options names;
	bool exact_bytes;
};

static int show_list(const struct requests *requests, const struct common_options *common,
		     struct error *error)
{
	AUTO(free_listing) struct listing *listing = listing_new();
	const struct result *result = NULL;

	if (listing)
		result = list_processes(listing, &requests->names, error);
	else
		error_set(error, "out of memory");
	if (!result)
		return -1;
	return show_answer(result, requests->renderer, requests->exact_bytes, common, error);
}

static int run_list(int argc, char **argv)
{
	struct options options = options_over(rows, ARRAY_SIZE(rows), argc, argv);
	struct requests requests = {
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
			requests.renderer = renderer_find(value);
		else if (got == OPT_BYTES)
			requests.exact_bytes = true;
		else
			requests.names.use_symbols = false;
	}
	if (show_list(&requests, &options.common, &error) < 0) {
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
