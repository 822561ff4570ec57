/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: finds the subcommand's row and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"

static int unknown_command(const char *name)
{
	const char *names[64] = { 0 };
	size_t count = 0;

	for (; commands[count].name && count < ARRAY_SIZE(names); count++)
		names[count] = commands[count].name;
	const char *near = nearest_name(name, names, count);

	if (near)
		return cli_usage_error(NULL, "there is no command '%s'; did you mean '%s'?", name,
				       near);
	return cli_usage_error(NULL, "there is no command '%s'", name);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		cmd_help(0, NULL);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cmd_help(1, argv + 1);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return cmd_version(1, argv + 1);

	const struct command *command = command_find(argv[1]);

	if (!command)
		return unknown_command(argv[1]);
	int status = command->run(argc - 1, argv + 1);

	/* A full disk or a closed pipe must not look like success. */
	if (fflush(stdout) != 0 && status == CLI_OK)
		return CLI_FAILED;
	return status;
}
