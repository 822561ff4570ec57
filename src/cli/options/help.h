/* SPDX-License-Identifier: Apache-2.0 */
/* Help from the rows. */
#ifndef CLI_OPTIONS_HELP_H
#define CLI_OPTIONS_HELP_H

#include <stdio.h>

#include "cli/commands.h"

/* `heapgauge --help`: the commands by what a person wants, on one screen. */
void help_all(FILE *out, unsigned columns);
/* `heapgauge help COMMAND`. */
void help_command(FILE *out, const struct command *command, unsigned columns);

/* The sentence about an option, in plain text: its line, the choices if they have no lines of their own, and what holds
 * without it. The caller's (free); NULL if out of memory. */
char *help_sentence(const struct option_row *row);

#endif
