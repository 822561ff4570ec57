/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge snap: asks the collector of a running process to take a snapshot, under a name. The process itself is neither
 * stopped nor told.
 */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options/options.h"
#include "collect/attach/request.h"

enum { OPT_NAME };

static const struct option_row rows[] = {
	[OPT_NAME] = { "name", 0, "NAME", "what the snapshot is called: --at snap:NAME",
		       .fallback = "snap", .scope = OPTION_TYPED_ONLY },
};

static int take_words(struct options *options, const char **ret_name, uint64_t *ret_pid,
		      struct error *error)
{
	const char *value;
	int got;

	while ((got = options_next(options, &value, error)) != OPTIONS_END) {
		if (got == OPTIONS_HELP)
			return OPTIONS_HELP;
		if (got == OPT_NAME)
			*ret_name = value;
		else if (got != OPTIONS_WORD)
			return -1;
		else if (*ret_pid)
			return error_set(error, "one process at a time");
		else if (options_number("PID", value, ret_pid, error) < 0)
			return error_set(error, "'%s' is no process number", value);
	}
	return *ret_pid ? 0 : error_set(error, "snap needs the number of a recorded process");
}

static int run_snap(int argc, char **argv)
{
	struct options options = options_over(rows, ARRAY_SIZE(rows), argc, argv);
	struct error error = ERROR_INIT;
	const char *name = "snap";
	uint64_t pid = 0;
	int status = take_words(&options, &name, &pid, &error);

	if (status == OPTIONS_HELP)
		return command_show_help(&command_snap);
	if (status < 0)
		return cli_usage_error("snap", "%s", error.message);
	if (request_snapshot((pid_t)pid, name, &error) < 0) {
		cli_error("%s", error.message);
		return CLI_FAILED;
	}
	return 0;
}

static const char *const examples[] = {
	"heapgauge snap 4711 --name 'before the storm'",
	"later: heapgauge report run.hg --at end --minus 'snap:before the storm'",
	NULL,
};

const struct command command_snap = {
	.name = "snap",
	.usage = "PID [--name NAME]",
	.help = "take a snapshot of a recorded process",
	.run = run_snap,
	.group = COMMANDS_RECORD,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_NONE,
	.about =
		"Tells whoever records the process, 'heapgauge record PROGRAM' or 'heapgauge record --pid PID', to take a "
		"snapshot: what every stack holds now. The process is not stopped and knows nothing of it. The view "
		"snapshots lists them.",
	.examples = examples,
};
