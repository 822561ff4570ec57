/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options in effect as text. They are kept in the order of the command's table, not in that of the command line, so that two
 * runs with the same options have the same text.
 *
 * The caller owns the structure. Not thread-safe.
 * Invariant: the text of an option begins with a space, or is empty.
 */
#include "cli/options/effective.h"

#include "base/compiler.h"
#include "cli/open.h"
#include "util/cleanup.h"

void effective_options_take(struct effective_options *options, const struct option_row *row,
			    int option, const char *value, bool repeats)
{
	ASSERT(option >= 0 && option < EFFECTIVE_OPTIONS_MAX);
	struct buffer *text = &options->texts[option];

	if (!repeats)
		buffer_clear(text);
	buffer_printf(text, " --%s", row->name);
	if (!row->argument)
		return;
	buffer_char(text, row->if_omitted ? '=' : ' ');
	append_shell_word(text, value);
}

char *effective_options_text(struct effective_options *options)
{
	AUTO(buffer_release) struct buffer all = BUFFER_INIT;

	for (size_t i = 0; i < EFFECTIVE_OPTIONS_MAX; i++) {
		const char *text = buffer_string(&options->texts[i]);

		if (!text)
			return NULL;
		buffer_text(&all, all.size == 0 && *text ? text + 1 : text);
	}
	return buffer_take_string(&all);
}

void effective_options_release(struct effective_options *options)
{
	for (size_t i = 0; i < EFFECTIVE_OPTIONS_MAX; i++)
		buffer_release(&options->texts[i]);
}
