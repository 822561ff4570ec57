/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge list: the recorded processes of this machine, how much each holds, and the top allocation site of each.
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
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format",
			 .choices = WORDS_WITH_HELP_THAT(renderers, format_renders_one_result),
			 .fallback = "text" },
	[OPT_BYTES] = { "bytes", 'b', NULL, "show exact byte counts" },
	[OPT_NO_SYMBOLS] = { "no-symbols", 0, NULL,
			     "show frames as module+offset, without looking up names" },
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

static int show_list(void *state, const struct common_options *common, struct error *error)
{
	const struct requests *requests = state;
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

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct requests *requests = state;

	if (option == OPTIONS_WORD)
		return error_set(error, "unexpected argument '%s'", value);
	if (option == OPT_FORMAT)
		requests->renderer = renderer_find(value);
	else if (option == OPT_BYTES)
		requests->exact_bytes = true;
	else
		requests->names.use_symbols = false;
	return 0;
}

static int run_list(int argc, char **argv)
{
	const struct command_steps steps = { take_option, NULL, show_list };
	struct requests requests = {
		.renderer = &renderers[0],
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
	};

	return command_run(&command_list, &steps, &requests, argc, argv);
}

static const char *const examples[] = {
	"heapgauge list",
	"the recorded processes, and what each holds",
	"sudo heapgauge list --format json",
	"processes of all users with all numbers, for scripts",
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
		"Lists all running processes that are being recorded, including those in containers: the mode, what "
		"each holds, and its largest site. Processes are not stopped. A process that may not be read is "
		"listed with the reason.",
	.examples = examples,
};
