/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. A command is one file cmd_<name>.c and one row in commands.c; the row's words are what
 * `heapgauge --help` shows. Only this folder prints or decides an exit status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stddef.h>

#include "base/compiler.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* cannot read, cannot write */
	CLI_USAGE = 2,	/* the command line is wrong */
	CLI_NOTHING_RECORDED = 125,
};

struct command {
	const char *name;
	const char *usage; /* what follows the name */
	const char *help;  /* one line, no full stop */
	/* argv[0] is the command's name. Returns the exit status. */
	int (*run)(int argc, char **argv);
};

/* Ends with a row whose name is NULL. */
extern const struct command commands[];
const struct command *command_find(const char *name);

int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_version(int argc, char **argv);

/* Prints "heapgauge: MESSAGE" on stderr: one sentence saying what happened, why, and what to do next. */
void cli_error(const char *format, ...) PRINTF_LIKE(1, 2);
/* The same for a wrong command line, followed by where to read more; returns CLI_USAGE. `command` may be NULL. */
int cli_usage_error(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
