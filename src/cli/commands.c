/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of subcommands and the few words that all of them share.
 *
 * A new command is a file cmd_<name>.c and a row here, in the order in which a person meets them: that is the order
 * of `heapgauge --help`.
 */
#include "cli/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct command commands[] = {
#ifdef HEAPGAUGE_HAS_RECORD
	{ "record", "[-o FILE] [options] [--] PROGRAM [ARGS]", "run a program and record its heap",
	  cmd_record },
#endif
	{ "report", "[FILE] [--view VIEW] [--format FORMAT]", "answer questions about a recording",
	  cmd_report },
	{ "help", "[COMMAND]", "show this list, or the options of a command", cmd_help },
	{ "version", "", "print the version", cmd_version },
	{ NULL, NULL, NULL, NULL },
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

void cli_error(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("heapgauge: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

int cli_usage_error(const char *command, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("heapgauge: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n  heapgauge help%s%s shows what there is.\n", command ? " " : "",
		command ? command : "");
	return CLI_USAGE;
}
