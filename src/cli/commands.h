/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. A command is one file cmd_<name>.c that ends with its `const struct command command_<name>`, and a
 * line in commands.c; help, man page and completion are made of that struct's words. Only this folder prints or decides
 * an exit status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stddef.h>

#include "base/compiler.h"
#include "cli/options/options.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* cannot read, cannot write */
	CLI_USAGE = 2,	/* the command line is wrong */
	CLI_NOTHING_RECORDED = 125,
};

/* What a person wants, in the order of `heapgauge --help`. */
enum command_group {
	COMMANDS_RECORD,
	COMMANDS_LOOK,
	COMMANDS_COMPARE,
	COMMANDS_SHARE,
	COMMANDS_HELP,
	COMMANDS_HIDDEN, /* in no list */
};
extern const char *const command_group_titles[COMMANDS_HIDDEN];

/* What the words behind the options are: for completion. */
enum command_words {
	WORDS_NONE,
	WORDS_RECORDING,  /* files *.hg */
	WORDS_PROGRAM,	  /* a program, and then whatever it takes */
	WORDS_EXECUTABLE, /* a program's file */
	WORDS_FOLDER,
	WORDS_PROCESS, /* the number of a process */
	WORDS_COMMAND, /* the name of a command */
};

struct command {
	const char *name;
	const char *usage; /* what follows the name */
	const char *help;  /* one line, no full stop */
	/* argv[0] is the command's name. Returns the exit status. */
	int (*run)(int argc, char **argv);
	enum command_group group;
	const struct option_row *options;
	size_t option_count; /* at most OPTIONS_MAX */
	enum command_words words;
	const char *about; /* paragraphs for its help and man page, an empty line between them */
	/* Pairs: a command line, and what it is for; NULL at the end. NULL: none. */
	const char *const *examples;
	const char *exit_status; /* paragraphs; NULL: 0, 1 and 2 as everywhere */
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
extern const struct command command_post_mortem;
extern const struct command command_diff;
extern const struct command command_check;
extern const struct command command_merge;
extern const struct command command_bundle;
extern const struct command command_export;
extern const struct command command_doctor;
extern const struct command command_generate;
extern const struct command command_help;
extern const struct command command_version;

/* What most commands do, with a state of their own. */
struct command_steps {
	/* A word (OPTIONS_WORD) or the option of that row. */
	int (*take)(void *state, int option, const char *value, struct error *error);
	/* After the last of them; NULL: there is nothing to check. What is wrong is the command line's fault. */
	int (*check)(void *state, struct error *error);
	/* The exit status; -1 with the error set: CLI_FAILED. */
	int (*run)(void *state, const struct common_options *common, struct error *error);
};
/* Returns the exit status. A command without options of its own reads no settings: it must work however broken they are. */
int command_run(const struct command *command, const struct command_steps *steps, void *state,
		int argc, char **argv);

/* Shows the command's help on stdout; returns CLI_OK. */
int command_show_help(const struct command *command);

/* Prints "heapgauge: MESSAGE" on stderr: one sentence saying what happened, why, and what to do next. */
void cli_error(const char *format, ...) PRINTF_LIKE(1, 2);
/* The same for a wrong command line, followed by where to read more; returns CLI_USAGE. Names where the value came from
 * if that was not the command line. `command` may be NULL. */
int cli_usage_error(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);
/* There is no such command: names the nearest; returns CLI_USAGE. */
int cli_unknown_command(const char *name);

#endif
