/* SPDX-License-Identifier: Apache-2.0 */
/* Options from rows. A command lists its options once; the command line, the environment, the settings files,
 * `heapgauge help COMMAND`, the man page and the completion of three shells all come from that list.
 *
 *	static const struct option_row rows[] = {
 *		[OPT_OUTPUT] = { "output", 'o', "FILE", "write the recording to FILE" },
 *		[OPT_VIEW] = { "view", 'v', "VIEW", "which question", .choices = WORDS_WITH_HELP(analyses) },
 *		[OPT_QUIET] = { "quiet", 'q', NULL, "no progress line" },
 *	};
 *	struct options o = options_over(rows, ARRAY_SIZE(rows), argc, argv);
 *	const char *value;
 *	int got;
 *	while ((got = options_next(&o, &value, &error)) != OPTIONS_END)
 *		switch (got) ...
 *
 * Understood: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, --flag=no, and "--", after which everything is a word.
 * Behind the command line (or, if program_follows, before its first word) come the values of HEAPGAUGE_<NAME> and of the
 * settings files for options that were not given: see settings.h. */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/options/words.h"
#include "util/error.h"

/* Where an option may be set besides on the command line. */
enum option_scope {
	OPTION_ANYWHERE = 0,
	OPTION_NOT_IN_FOLDER, /* not in the file of the current folder, which may be somebody else's work */
	OPTION_TYPED_ONLY, /* nowhere: it makes sense for one run */
};

struct option_row {
	const char *name; /* without the dashes; lower case */
	char letter;	  /* 0 = none */
	const char *
		argument; /* what the value is called; NULL = a flag. FILE, FOLDER and PID are completed as such */
	const char *help;     /* one line, no full stop */
	struct words choices; /* the values there are; another is an error that names the nearest */
	const char *group;    /* heading in help and man page; NULL: none */
	const char *fallback; /* what holds if it is not given, in words; NULL: nothing to say */
	enum option_scope scope;
};

/* What every command takes: how its output looks. */
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
	int at; /* index of the next word: a command that stops at its first word takes the rest from here */
	bool words_only;
	bool program_follows; /* the first word is a program whose options are its own */
	struct common_options common;

	/* Inner: which rows were given, and what the settings add. */
	uint64_t given, common_given;
	bool asked_settings;
	const struct option_value *settings;
	size_t setting_count, setting_at;
};
enum { OPTIONS_MAX = 64 };

enum { OPTIONS_END = -1, OPTIONS_WORD = -2, OPTIONS_ERROR = -3, OPTIONS_HELP = -4 };

/* Begins behind argv[0], which is the command's name. */
struct options options_over(const struct option_row *rows, size_t row_count, int argc, char **argv);

/* The index of the option's row, or one of the above. *value is the option's argument, or the word; NULL for a flag.
 * -h and --help give OPTIONS_HELP. An unknown option is an error that names the nearest. */
int options_next(struct options *options, const char **value, struct error *error);

/* Where the value that options_next gave last came from; NULL: from the command line. For messages. */
const char *options_origin(void);

/* Of all rows, the command's and then the common ones. */
const struct option_row *options_row(const struct options *options, size_t index);

/* A decimal number that fits 64 bits and nothing behind it. */
int options_number(const char *name, const char *text, uint64_t *ret, struct error *error);
/* What may be named once: *slot is NULL before. `what`: "recording". */
int options_once(const char **slot, const char *what, const char *value, struct error *error);
/* The number of a process. */
int options_pid(const char *name, const char *text, pid_t *ret, struct error *error);

#endif
