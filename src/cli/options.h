/* SPDX-License-Identifier: Apache-2.0 */
/* Command line options from rows. A command lists its options once; parsing and `heapgauge help COMMAND` (and later
 * man page and completion) come from that list.
 *
 *	static const struct option_row rows[] = {
 *		[OPT_OUTPUT] = { "output", 'o', "FILE", "write the recording to FILE" },
 *		[OPT_QUIET] = { "quiet", 'q', NULL, "no progress line" },
 *	};
 *	struct options o = options_over(rows, ARRAY_SIZE(rows), argc, argv);
 *	const char *value;
 *	int got;
 *	while ((got = options_next(&o, &value, &error)) != OPTIONS_END)
 *		switch (got) ...
 *
 * Understood: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, and "--", after which everything is a word. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/error.h"

struct option_row {
	const char *name;     /* without the dashes */
	char letter;	      /* 0 = none */
	const char *argument; /* what the value is called; NULL = a flag */
	const char *help;     /* one line */
};

struct options {
	const struct option_row *rows;
	size_t row_count;
	int argc;
	char **argv;
	int at; /* index of the next word: a command that stops at its first word takes the rest from here */
	bool words_only;
};

enum { OPTIONS_END = -1, OPTIONS_WORD = -2, OPTIONS_ERROR = -3, OPTIONS_HELP = -4 };

/* Begins behind argv[0]. */
struct options options_over(const struct option_row *rows, size_t row_count, int argc, char **argv);

/* The index of the option's row, or one of the above. *value is the option's argument, or the word; NULL for a flag.
 * -h and --help give OPTIONS_HELP. An unknown option is an error that names the nearest. */
int options_next(struct options *options, const char **value, struct error *error);

/* One line for each row. */
void options_print(FILE *out, const struct option_row *rows, size_t row_count);

/* A decimal number that fits 64 bits and nothing behind it. */
int options_number(const char *name, const char *text, uint64_t *ret, struct error *error);

/* The entry of names (count, may hold NULLs) that is most like `name`; NULL if none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t count);

#endif
