/* SPDX-License-Identifier: Apache-2.0 */
/* Prints help from the rows. */
#ifndef CLI_OPTIONS_HELP_H
#define CLI_OPTIONS_HELP_H

#include <stdio.h>

#include "cli/commands.h"

/* `heapgauge --help`: the commands, grouped by purpose, on one screen. */
void help_all(FILE *out, unsigned columns);
/* `heapgauge help COMMAND`. */
void help_command(FILE *out, const struct command *command, unsigned columns);

/* Describes an option in plain text: its help, its choices if they have no descriptions, and its default. The
 * caller frees it; NULL if out of memory. */
char *help_sentence(const struct option_row *row);

#endif
