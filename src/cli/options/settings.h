/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options that are not on the command line: from the environment, then from .heapgauge.ini in the current
 * folder, then from the user's heapgauge/config.ini. The first source that has the option wins.
 *
 *	HEAPGAUGE_LIMIT=50		any command that has --limit
 *	[report]
 *	limit = 50			this command
 *	[all]
 *	color = never			every command that has it; the command's own section takes precedence
 */
#ifndef CLI_OPTIONS_SETTINGS_H
#define CLI_OPTIONS_SETTINGS_H

#include <stddef.h>

#include "cli/options/options.h"
#include "util/error.h"

#define SETTINGS_FOLDER_FILE ".heapgauge.ini"

/* Fills o->settings for the options that were not given on the command line. An unknown section or key is an
 * error that names the file, the line and the nearest name; so is a variable that is an obvious typo. Returned
 * values live as long as the process. */
int settings_for(struct options *o, struct error *error);

/* Turns "no-pager" into "HEAPGAUGE_NO_PAGER"; `room` has SETTINGS_VARIABLE_BYTES. Returns false if no variable
 * can set the option. */
enum { SETTINGS_VARIABLE_BYTES = 64 };
bool settings_variable(const struct option_row *row, char room[SETTINGS_VARIABLE_BYTES]);

#endif
