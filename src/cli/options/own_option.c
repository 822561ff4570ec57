/* SPDX-License-Identifier: Apache-2.0 */
/* The option --own. No state. */
#include "cli/options/own_option.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/frames/own_code.h"
#include "util/cleanup.h"

int own_option_take(const char *regex, char **text, struct error *error)
{
	AUTO_FREE char *rule = NULL;
	struct own_rule parsed;

	if (asprintf(&rule, "regex:%s", regex) < 0) {
		rule = NULL;
		return error_set(error, "out of memory");
	}
	if (own_rule_parse(rule, &parsed, error) < 0)
		return -1;
	own_rule_release(&parsed);
	free(*text);
	*text = TAKE(rule);
	return 0;
}
