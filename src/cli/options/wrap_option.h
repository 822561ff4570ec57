/* SPDX-License-Identifier: Apache-2.0 */
/* --wrap and --wrap-prefix of `heapgauge record`, combined into the text that the recorder reads:
 * format/wraps.h. */
#ifndef CLI_OPTIONS_WRAP_OPTION_H
#define CLI_OPTIONS_WRAP_OPTION_H

#include "format/wraps.h"
#include "util/error.h"

struct wrap_option {
	char text[WRAPS_TEXT_MAX + 1];
};

/* Adds one of them; -1 with the error set if it cannot be parsed. */
int wrap_option_add(struct wrap_option *option, const char *value, bool is_prefix,
		    struct error *error);
#endif
