/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge snap: asks the collector of a running process to take a named snapshot. The process itself is neither
 * stopped nor notified.
 */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options/options.h"
#include "collect/attach/request.h"

enum { OPT_NAME };

static const struct option_row rows[] = {
	[OPT_NAME] = { "name", 0, "NAME", "name of the snapshot, for --at snap:NAME",
		       .fallback = "snap", .scope = OPTION_TYPED_ONLY },
};

struct snap_command {
	const char *name;
	pid_t pid;
};

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct snap_command *c = state;

	if (option == OPT_NAME)
		c->name = value;
	else if (c->pid)
		return error_set(error, "one process at a time");
	else if (options_pid("PID", value, &c->pid, error) < 0)
		return error_set(error, "'%s' is not a process id", value);
	return 0;
}

static int check(void *state, struct error *error)
{
	const struct snap_command *c = state;

	return c->pid ? 0 : error_set(error, "snap needs the id of a recorded process");
}

static int snap(void *state, const struct common_options *common, struct error *error)
{
	const struct snap_command *c = state;

	(void)common;
	return request_snapshot(c->pid, c->name, error);
}

static int run_snap(int argc, char **argv)
{
	const struct command_steps steps = { take_option, check, snap };
	struct snap_command c = { .name = "snap" };

	return command_run(&command_snap, &steps, &c, argc, argv);
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
		"Asks the collector of the process, 'heapgauge record PROGRAM' or 'heapgauge record --pid PID', to "
		"take a snapshot of what every stack holds now. The process is not stopped and does not notice. The "
		"view snapshots lists all snapshots.",
	.examples = examples,
};
