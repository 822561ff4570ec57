/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. A command is one file cmd_<name>.c that ends with its `const struct command command_<name>`,
 * and a line in commands.c. Help, man page and completion are generated from that struct. Only this folder
 * prints or chooses an exit status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stddef.h>

#include "base/compiler.h"
#include "cli/options/options.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* cannot read or write */
	CLI_USAGE = 2,	/* the command line is wrong */
	CLI_NOTHING_RECORDED = 125,
};

/* Groups of commands by purpose, in the order of `heapgauge --help`. */
enum command_group {
	COMMANDS_RECORD,
	COMMANDS_LOOK,
	COMMANDS_COMPARE,
	COMMANDS_SHARE,
	COMMANDS_HELP,
	COMMANDS_HIDDEN, /* not listed */
};
extern const char *const command_group_titles[COMMANDS_HIDDEN];

/* What the positional arguments are, for completion. */
enum command_words {
	WORDS_NONE,
	WORDS_RECORDING,  /* files *.hg */
	WORDS_PROGRAM,	  /* a program, then its arguments */
	WORDS_EXECUTABLE, /* the file of a program */
	WORDS_FOLDER,
	WORDS_PROCESS, /* a process id */
	WORDS_COMMAND, /* the name of a command */
};

struct command {
	const char *name;
	const char *usage; /* what follows the name in the usage line */
	const char *help;  /* one line, no full stop */
	/* argv[0] is the name of the command. Returns the exit status. */
	int (*run)(int argc, char **argv);
	enum command_group group;
	const struct option_row *options;
	size_t option_count; /* at most OPTIONS_MAX */
	enum command_words words;
	const char *about; /* paragraphs for help and man page, separated by empty lines */
	/* Pairs of a command line and its purpose, ended by NULL; NULL: no examples. */
	const char *const *examples;
	const char *exit_status; /* paragraphs; NULL: the usual 0, 1 and 2 */
};

/* Ends with NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name);

extern const struct command command_record;
extern const struct command command_report;
extern const struct command command_view;
extern const struct command command_list;
extern const struct command command_top;
extern const struct command command_snap;
extern const struct command command_image;
extern const struct command command_post_mortem;
extern const struct command command_diff;
extern const struct command command_check;
extern const struct command command_merge;
extern const struct command command_bundle;
extern const struct command command_export;
extern const struct command command_agent;
extern const struct command command_doctor;
extern const struct command command_generate;
extern const struct command command_help;
extern const struct command command_version;

/* The steps of most commands; `state` is the command's own. */
struct command_steps {
	/* Takes a positional argument (OPTIONS_WORD) or the option of that row. */
	int (*take)(void *state, int option, const char *value, struct error *error);
	/* Runs after the last argument; NULL: nothing to check. A failure is a usage error. */
	int (*check)(void *state, struct error *error);
	/* Returns the exit status; -1 with the error set means CLI_FAILED. */
	int (*run)(void *state, const struct common_options *common, struct error *error);
};
/* Returns the exit status. A command without options of its own reads no settings, so that it works even if they
 * are broken. */
int command_run(const struct command *command, const struct command_steps *steps, void *state,
		int argc, char **argv);

/* Prints the command's help to stdout; returns CLI_OK. */
int command_show_help(const struct command *command);

/* Prints "heapgauge: MESSAGE" to stderr: one sentence that says what happened, why, and what to do next. */
void cli_error(const char *format, ...) PRINTF_LIKE(1, 2);
/* Prints an error, and its hint on a second line. */
void cli_report(const struct error *error);
/* Does the same for a wrong command line and adds where to read more; returns CLI_USAGE. Names the source of the
 * value if it was not the command line. `command` may be NULL. */
int cli_usage_error(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);
/* Reports an unknown command and suggests the nearest name; returns CLI_USAGE. */
int cli_unknown_command(const char *name);

#endif
