/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge help, heapgauge version, and the output of a bare `heapgauge` or `heapgauge --help`.
 *
 * All text comes from the rows of the commands (help.h) and is paged like a report.
 */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options/help.h"
#include "cli/output.h"

/* `command` NULL: lists all commands. */
static int show(const struct command *command, const struct common_options *requests)
{
	struct output output = output_open(requests);
	struct error error = ERROR_INIT;

	if (command)
		help_command(output.file, command, output.columns);
	else
		help_all(output.file, output.columns);
	if (output_close(&output, 0, &error) < 0) {
		cli_error("%s", error.message);
		return CLI_FAILED;
	}
	return CLI_OK;
}

int command_show_help(const struct command *command)
{
	return show(command, NULL);
}

static int run_help(int argc, char **argv)
{
	struct options options = options_over(NULL, 0, argc, argv);
	const struct command *command = NULL;
	struct error error = ERROR_INIT;
	const char *value;
	int got;

	while ((got = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (got == OPTIONS_HELP)
			return command_show_help(&command_help);
		if (got != OPTIONS_WORD)
			return cli_usage_error("help", "%s", error.message);
		if (command)
			return cli_usage_error("help", "one command at a time: '%s' or '%s'?",
					       command->name, value);
		command = command_find(value);
		if (!command)
			return cli_unknown_command(value);
	}
	return show(command, &options.common);
}

const struct command command_help = {
	.name = "help",
	.usage = "[COMMAND]",
	.help = "show this list, or the help of a command",
	.run = run_help,
	.group = COMMANDS_HELP,
	.words = WORDS_COMMAND,
};

static int run_version(int argc, char **argv)
{
	struct options options = options_over(NULL, 0, argc, argv);
	struct error error = ERROR_INIT;
	const char *value;
	int got;

	while ((got = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (got == OPTIONS_HELP)
			return command_show_help(&command_version);
		return cli_usage_error("version", "%s",
				       got == OPTIONS_WORD ? "version takes no arguments"
							   : error.message);
	}
	printf("heapgauge %s\n", HEAPGAUGE_VERSION);
	return CLI_OK;
}

const struct command command_version = {
	.name = "version",
	.usage = "",
	.help = "print the version",
	.run = run_version,
	.group = COMMANDS_HELP,
};
