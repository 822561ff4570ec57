/* SPDX-License-Identifier: Apache-2.0 */
/* heapgauge agent: a daemon that reads the recorded processes of this machine for metrics and profile stores. */
#include <stdio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "cli/commands.h"
#include "cli/options/options.h"

#define DEFAULT_FILE "/etc/heapgauge/agent.ini"

enum { OPT_CHECK };

static const struct option_row rows[] = {
	[OPT_CHECK] = { "check", 0, NULL, "check the settings and end",
			.scope = OPTION_TYPED_ONLY },
};

struct agent_command {
	const char *path;
	bool check;
};

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct agent_command *c = state;

	if (option == OPTIONS_WORD)
		return options_once(&c->path, "settings file", value, error);
	c->check = true;
	return 0;
}

static void say(const char *sentence)
{
	cli_error("%s", sentence);
}

static int run(void *state, const struct common_options *common, struct error *error)
{
	struct agent_command *c = state;
	struct agent_settings settings;
	int status;

	(void)common;
	if (!c->path && access(DEFAULT_FILE, F_OK) == 0)
		c->path = DEFAULT_FILE;
	status = agent_settings_read(&settings, c->path, error);
	if (status == 0)
		status = c->check ? agent_check(&settings, error)
				  : agent_run(&settings, HEAPGAUGE_VERSION, say, error);
	if (status == 0 && c->check)
		cli_error("%s is valid", c->path ? c->path : "no settings file: the default");
	agent_settings_release(&settings);
	return status;
}

static int run_agent(int argc, char **argv)
{
	const struct command_steps steps = { take_option, NULL, run };
	struct agent_command c = { 0 };

	return command_run(&command_agent, &steps, &c, argc, argv);
}

static const char *const examples[] = {
	"heapgauge agent",
	"serve the recorded processes of this machine on 127.0.0.1:9464",
	"heapgauge agent /etc/heapgauge/agent.ini --check",
	"whether the settings are valid",
	"go tool pprof http://127.0.0.1:9464/debug/pprof/heap?pid=4711",
	"one process, in pprof",
	NULL,
};

const struct command command_agent = {
	.name = "agent",
	.usage = "[FILE] [--check]",
	.help = "serve and push the profiles of a machine",
	.run = run_agent,
	.group = COMMANDS_SHARE,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_NONE,
	.about =
		"Runs until Ctrl-C or SIGTERM, one per machine or pod. Finds the processes that record themselves (see "
		"'heapgauge list'), reads each once a minute, and serves /metrics for Prometheus, "
		"/debug/pprof/heap?pid=PID and /debug/pprof/allocs?pid=PID for pprof and Parca, and /healthz. It pushes "
		"profiles to Pyroscope and writes them to files if the settings say so. It stops no process and writes to "
		"none.\n\n"
		"FILE has the settings (default: " DEFAULT_FILE ", if it exists).\n\n"
		"It listens on 127.0.0.1 unless the settings say otherwise, and then demands a token. Without a token it "
		"answers its own user and root alone.",
	.examples = examples,
};
