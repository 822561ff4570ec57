/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge top: a live view of a running process. tui/ draws the screen; this file has the options, and provides
 * profiles and names: it reads the process as `report --pid` does, except for its block map.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/list_processes.h"
#include "cli/options/options.h"
#include "collect/kernel/container.h"
#include "collect/attach/inspect.h"
#include "model/build.h"
#include "tui/top.h"
#include "util/cleanup.h"

enum { NICENESS = 10 };
enum { OPT_ORDER, OPT_FOCUS, OPT_EVERY, OPT_BYTES, OPT_NO_SYMBOLS };

static const struct option_row rows[] = {
	[OPT_ORDER] = { "order", 0, "ORDER", "number to sort sites by",
			.choices = WORDS_WITH_HELP(top_orders), .fallback = "live" },
	[OPT_FOCUS] = { "focus", 0, "REGEX", "only stacks with a matching function or file" },
	[OPT_EVERY] = { "every", 0, "SECONDS", "time between two readings", .fallback = "1" },
	[OPT_BYTES] = { "bytes", 'b', NULL, "show exact byte counts" },
	[OPT_NO_SYMBOLS] = { "no-symbols", 0, NULL,
			     "show frames as module+offset, without looking up names" },
};

/* Provides readings. Used by the reader's thread, which may outlive the command briefly. */
struct reading_source {
	struct names_options names;
	struct recorded recorded; /* pid 0: not searched for yet */
	struct profile_copy copied;
	char *root; /* of the container of the process that is being named */
};

static struct profile *read_process(void *context, pid_t pid, struct error *error)
{
	struct reading_source *source = context;
	struct recording recording = { 0 };

	if (source->recorded.pid != pid && recorded_find(pid, &source->recorded, error) < 0) {
		source->recorded.pid = 0;
		return NULL;
	}
	if (inspect_recorded(&source->copied, &source->recorded, PROFILE_COPY_COUNTERS,
			     HEAPGAUGE_VERSION, &recording, error) < 0) {
		source->recorded.pid = 0; /* it may have called exec */
		return NULL;
	}
	return profile_new(&recording, error);
}

static struct names *name_process(void *context, pid_t pid, struct error *error)
{
	struct reading_source *source = context;
	struct names *names;

	free(source->root);
	source->root = container_root(pid);
	source->names.root = source->root;
	names = names_new(&source->names);
	if (!names)
		error_set(error, "out of memory");
	return names;
}

static struct listing *list_them(void *context, const struct result **ret, struct error *error)
{
	const struct reading_source *source = context;
	struct listing *listing = listing_new();

	*ret = listing ? list_processes(listing, &source->names, error) : NULL;
	if (*ret)
		return listing;
	if (!listing)
		error_set(error, "out of memory");
	listing_free(listing);
	return NULL;
}

static int take_pid(const char *text, pid_t *ret, struct error *error)
{
	uint64_t pid;

	if (*ret)
		return error_set(error, "one process at a time: %d or '%s'?", (int)*ret, text);
	if (options_number("PID", text, &pid, error) < 0 || pid == 0 || pid > INT32_MAX)
		return error_set(error, "top takes a process id, not '%s'", text);
	*ret = (pid_t)pid;
	return 0;
}

static int take_every(const char *text, uint64_t *ret_ns, struct error *error)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600))
		return error_set(error, "--every takes 0.1 to 3600 seconds, not '%s'", text);
	*ret_ns = (uint64_t)(seconds * 1e9);
	return 0;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct top_options *top = state;
	struct reading_source *source = top->source.context;

	switch (option) {
	case OPTIONS_WORD:
		return take_pid(value, &top->pid, error);
	case OPT_ORDER:
		top->order = value;
		return 0;
	case OPT_FOCUS:
		top->filter = value;
		return 0;
	case OPT_EVERY:
		return take_every(value, &top->interval_ns, error);
	case OPT_BYTES:
		top->exact_bytes = true;
		return 0;
	case OPT_NO_SYMBOLS:
		source->names.use_symbols = false;
		return 0;
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

/* Reports errors before the screen is taken over. Preselects the process if there is only one. */
static int choose(struct top_options *top, struct error *error)
{
	AUTO(recorded_list_release) struct recorded_list list = { 0 };
	struct recorded recorded;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return error_set(
			error, "top needs a terminal; 'heapgauge report --pid PID' writes the same "
			       "as text, 'heapgauge list' lists the recorded processes");
	if (top->pid)
		return recorded_find(top->pid, &recorded, error);
	if (recorded_list(&list, error) < 0)
		return -1;
	if (list.found.count == 1)
		top->pid = list.found.at[0].pid;
	return 0;
}

static int watch(void *state, const struct common_options *common, struct error *error)
{
	struct top_options *top = state;

	(void)common;
	/* Yield the CPU to the observed process. */
	(void)!nice(NICENESS);
	return choose(top, error) < 0 ? -1 : top_run(top, error);
}

static int run_top(int argc, char **argv)
{
	static struct reading_source source = {
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
		.copied = { .fd = -1 },
	};
	struct top_options top = { .source = { .context = &source,
					       .read = read_process,
					       .names = name_process,
					       .list = list_them },
				   .interval_ns = 1000000000 };
	const struct command_steps steps = { take_option, NULL, watch };

	return command_run(&command_top, &steps, &top, argc, argv);
}

static const char *const examples[] = {
	"heapgauge top 4711",
	"watch process 4711",
	"heapgauge top",
	"the only recorded process, or a choice if there are several",
	NULL,
};

const struct command command_top = {
	.name = "top",
	.usage = "[PID] [options]",
	.help = "watch a running process",
	.run = run_top,
	.group = COMMANDS_LOOK,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_PROCESS,
	.about =
		"Watches a running process in the terminal: totals, rates, RSS, and the largest sites, sorted by any "
		"number; call tree, threads and other views are on other keys, which ? lists. The process is not "
		"stopped, and any number of readers may watch it. Reading takes at most 5 % of one CPU, at low "
		"priority.",
	.examples = examples,
};
