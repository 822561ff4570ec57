/* SPDX-License-Identifier: Apache-2.0 */
/* Generates man pages, and completion for three shells, from the rows of the commands at build time. */
#ifndef CLI_GENERATE_GENERATE_H
#define CLI_GENERATE_GENERATE_H

#include <stdio.h>

#include "cli/commands.h"

/* The page heapgauge(1), or heapgauge-<command>(1). */
void generate_man(FILE *out, const struct command *command);
void generate_bash(FILE *out);
void generate_zsh(FILE *out);
void generate_fish(FILE *out);

/* The kind of an option's value, for completion. */
enum value_kind { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER, VALUE_PID, VALUE_OTHER };
enum value_kind value_kind_of(const struct option_row *row);

/* Iterates over the rows of a command: its own, then those common to all commands. Skips rows without a name. */
struct row_walk {
	const struct command *command;
	size_t at;
};
const struct option_row *row_walk_next(struct row_walk *walk);

/* Writes the text with a backslash before each byte that is in `special`. */
void put_escaped(FILE *out, const char *text, const char *special);

#endif
