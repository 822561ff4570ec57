/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of the commands' rows at build time: man pages, and completion for three shells. */
#ifndef CLI_GENERATE_GENERATE_H
#define CLI_GENERATE_GENERATE_H

#include <stdio.h>

#include "cli/commands.h"

/* The page heapgauge(1), or heapgauge-<command>(1). */
void generate_man(FILE *out, const struct command *command);
void generate_bash(FILE *out);
void generate_zsh(FILE *out);
void generate_fish(FILE *out);

/* What an option's value is, for completion. */
enum value_kind { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER, VALUE_PID, VALUE_OTHER };
enum value_kind value_kind_of(const struct option_row *row);

/* The rows of a command, its own and then those of every command. Skips rows without a name. */
struct row_walk {
	const struct command *command;
	size_t at;
};
const struct option_row *row_walk_next(struct row_walk *walk);

/* Writes the text; each byte that is in `special` gets a backslash in front. */
void put_escaped(FILE *out, const char *text, const char *special);

#endif
