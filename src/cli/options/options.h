/* SPDX-License-Identifier: Apache-2.0 */
/* Options from rows. A command lists its options once; the command line, the environment, the settings files,
 * `heapgauge help COMMAND`, the man page and the completion of three shells all use that list.
 *
 *	static const struct option_row rows[] = {
 *		[OPT_OUTPUT] = { "output", 'o', "FILE", "write the recording to FILE" },
 *		[OPT_VIEW] = { "view", 'v', "VIEW", "which view to print", .choices = WORDS_WITH_HELP(analyses) },
 *		[OPT_QUIET] = { "quiet", 'q', NULL, "no progress line" },
 *	};
 *	struct options o = options_over(rows, ARRAY_SIZE(rows), argc, argv);
 *	const char *value;
 *	int got;
 *	while ((got = options_next(&o, &value, &error)) != OPTIONS_END)
 *		switch (got) ...
 *
 * Accepts --name VALUE, --name=VALUE, -n VALUE, -nVALUE, --flag=no, and "--", after which everything is a
 * positional argument. After the command line (or, if program_follows, before its first positional argument)
 * come the values that read_settings finds for options that were not given: from HEAPGAUGE_<NAME> and the
 * settings files, see settings.h. */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/options/words.h"
#include "util/error.h"

/* Where an option may be set besides the command line. */
enum option_scope {
	OPTION_ANYWHERE = 0,
	OPTION_NOT_IN_FOLDER, /* not in the settings file of the current folder, which may belong to somebody else */
	OPTION_TYPED_ONLY, /* nowhere: it makes sense for one run only */
};

struct option_row {
	const char *name; /* without the dashes; lower case */
	char letter;	  /* 0: none */
	const char *
		argument; /* name of the value; NULL: a flag. FILE, FOLDER and PID are completed as such */
	const char *help;     /* one line, no full stop */
	struct words choices; /* the allowed values; the error for any other suggests the nearest */
	bool takes_two;	      /* or two of them: calls,total */
	const char *group;    /* heading in help and man page; NULL: none */
	const char *fallback; /* the default, described in words; NULL: not mentioned */
	const char *
		if_omitted; /* the value of --name alone, so that one must be attached: --name=VALUE; NULL: it needs one */
	enum option_scope scope;
};

/* The options of every command: how its output looks. */
enum option_when { WHEN_AUTO = 0, WHEN_ALWAYS, WHEN_NEVER };
struct common_options {
	enum option_when color;
	bool no_pager;
	bool no_config;
};
extern const struct option_row common_rows[];
extern const size_t common_row_count;

struct option_value {
	size_t row;
	const char *value;
	const char *origin; /* "HEAPGAUGE_LIMIT", ".heapgauge.ini:3" */
};

struct options {
	const struct option_row *rows;
	size_t row_count; /* at most OPTIONS_MAX */
	int argc;
	char **argv;
	int at; /* index of the next word; a command that stops at its first positional argument continues here */
	bool words_only;
	bool program_follows; /* the first positional argument is a program, which has options of its own */
	/* settings_for; NULL: only the command line counts */
	int (*read_settings)(struct options *options, struct error *error);
	struct common_options common;

	/* Private: which rows were given, and what the settings add. */
	uint64_t given, common_given;
	bool asked_settings;
	const struct option_value *settings;
	size_t setting_count, setting_at;
};
enum { OPTIONS_MAX = 64 };

enum { OPTIONS_END = -1, OPTIONS_WORD = -2, OPTIONS_ERROR = -3, OPTIONS_HELP = -4 };

/* Starts after argv[0], which is the name of the command. */
struct options options_over(const struct option_row *rows, size_t row_count, int argc, char **argv);

/* Returns the index of the option's row, or one of the above. *value is the option's value or the positional
 * argument; NULL for a flag. -h and --help give OPTIONS_HELP. An unknown option is an error that suggests the
 * nearest. */
int options_next(struct options *options, const char **value, struct error *error);

/* Returns where the last value from options_next came from, for messages; NULL: the command line. */
const char *options_origin(void);

/* Indexes all rows: the command's own, then the common ones. */
const struct option_row *options_row(const struct options *options, size_t index);

/* Parses a decimal number of at most 64 bits, with nothing after it. */
int options_number(const char *name, const char *text, uint64_t *ret, struct error *error);
/* Stores an argument that may be given only once: *slot must be NULL. `what` is its name, as in "recording". */
int options_once(const char **slot, const char *what, const char *value, struct error *error);
/* Parses a process id. */
int options_pid(const char *name, const char *text, pid_t *ret, struct error *error);

#endif
