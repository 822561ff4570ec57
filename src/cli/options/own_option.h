/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_OPTIONS_OWN_OPTION_H
#define CLI_OPTIONS_OWN_OPTION_H

#include "util/error.h"

/* Takes the value of --own: replaces *text, owned by the caller, by a valid rule of model/frames/own_code.h. Checked when it is read, so
 * that a mistake does not cost a run. */
int own_option_take(const char *regex, char **text, struct error *error);

#endif
