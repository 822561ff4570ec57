/* SPDX-License-Identifier: Apache-2.0 */
/* The options in effect, wherever they came from, as a text that could be typed: for the recording. */
#ifndef CLI_OPTIONS_EFFECTIVE_H
#define CLI_OPTIONS_EFFECTIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options/options.h"
#include "util/buffer.h"

enum { EFFECTIVE_OPTIONS_MAX = 64 };

/* Zeroed: none. */
struct effective_options {
	struct buffer texts[EFFECTIVE_OPTIONS_MAX]; /* by option: " --mode sample" */
};

/* Replaces the option's earlier value, or adds to it if it may be repeated. value NULL: the option takes none. */
void effective_options_take(struct effective_options *options, const struct option_row *row,
			    int option, const char *value, bool repeats);
/* All of them in their order; the caller frees it. NULL: out of memory. */
char *effective_options_text(struct effective_options *options);
void effective_options_release(struct effective_options *options);

#endif
