/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge help, heapgauge version, and what a bare `heapgauge` or `heapgauge --help` shows.
 *
 * The list comes from the rows of commands.c; `help COMMAND` is the command's own --help, so that the words exist
 * once.
 */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"

int cmd_help(int argc, char **argv)
{
	if (argc > 1 && argv[1][0] != '-') {
		const struct command *c = command_find(argv[1]);

		if (!c)
			return cli_usage_error(NULL, "there is no command '%s'", argv[1]);
		if (c->run != cmd_help && c->run != cmd_version)
			return c->run(2, (char *[]){ argv[1], (char[]){ "--help" }, NULL });
		printf("usage: heapgauge %s %s\n\n%s\n", c->name, c->usage, c->help);
		return CLI_OK;
	}
	fputs("heapgauge: an exact heap profiler for Linux\n\n", stdout);
	for (const struct command *c = commands; c->name; c++) {
		char left[80];

		snprintf(left, sizeof left, "%s %s", c->name, c->usage);
		printf("  %-50s %s\n", left, c->help);
	}
	fputs("\nBegin with:  heapgauge record ./program\n", stdout);
	return CLI_OK;
}

int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("heapgauge %s\n", HEAPGAUGE_VERSION);
	return CLI_OK;
}
