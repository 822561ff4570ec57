/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What options are when the command line does not say: from the environment, then from .heapgauge.ini of the current
 * folder, then from the user's heapgauge/config.ini. The first of these that has an option decides it.
 *
 *	HEAPGAUGE_LIMIT=50		any command that has --limit
 *	[report]
 *	limit = 50			this command
 *	[all]
 *	color = never			every command that has it; the command's own section goes before
 */
#ifndef CLI_OPTIONS_SETTINGS_H
#define CLI_OPTIONS_SETTINGS_H

#include <stddef.h>

#include "cli/options/options.h"
#include "util/error.h"

#define SETTINGS_FOLDER_FILE ".heapgauge.ini"

/* Fills o->settings for the options that were not given on the command line. An unknown section or key is an error that
 * names the file, the line and the nearest; so is a variable that is plainly a mistyped one. What is handed out lives as
 * long as the process. */
int settings_for(struct options *o, struct error *error);

/* "HEAPGAUGE_NO_PAGER" of "no-pager". `room` of SETTINGS_VARIABLE_BYTES. False: the option cannot be set there. */
enum { SETTINGS_VARIABLE_BYTES = 64 };
bool settings_variable(const struct option_row *row, char room[SETTINGS_VARIABLE_BYTES]);

#endif
