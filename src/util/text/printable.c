/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines printable characters by the ranges of those that are not. Independent of the locale, so that reports do not depend on
 * it. Pure except for print_printable.
 */
#include "util/text/printable.h"

#include <string.h>

#include "base/compiler.h"
#include "util/terminal.h"
#include "util/text/utf8.h"

static const struct {
	uint32_t first, last;
} harmful[] = {
	{ 0x00, 0x1f },	    /* C0 */
	{ 0x7f, 0x9f },	    /* DEL, C1 */
	{ 0x61c, 0x61c },   /* Arabic letter mark */
	{ 0x200e, 0x200f }, /* left-to-right and right-to-left mark */
	{ 0x2028, 0x202e }, /* line and paragraph separators, embeddings and overrides */
	{ 0x2066, 0x2069 }, /* isolates */
};

bool printable_character(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmful); i++)
		if (c >= harmful[i].first && c <= harmful[i].last)
			return false;
	return true;
}

size_t printable_step(struct span text, bool *ret_printable)
{
	if (text.data[0] >= ' ' && text.data[0] < 0x7f) { /* fast path */
		*ret_printable = true;
		return 1;
	}
	size_t length = utf8_sequence(text);

	*ret_printable = length > 0 && printable_character(utf8_code_point(text.data, length));
	return MAX(length, (size_t)1);
}

static void append(struct buffer *b, struct span text, bool ascii, bool lines)
{
	for (size_t at = 0, step; at < text.size; at += step) {
		struct span rest = span_of(text.data + at, text.size - at);
		bool shown;

		step = printable_step(rest, &shown);
		if ((shown && (!ascii || step == 1)) || (lines && rest.data[0] == '\n'))
			buffer_append(b, rest.data, step);
		else
			buffer_char(b, '?');
	}
}

void buffer_printable(struct buffer *b, const char *text, bool ascii)
{
	append(b, span_of(text, strlen(text)), ascii, false);
}

void buffer_printable_lines(struct buffer *b, struct span text)
{
	append(b, text, false, true);
}

void print_printable(FILE *out, const char *text)
{
	struct terminal terminal = terminal_of(fileno(out));
	struct buffer shown = BUFFER_INIT;

	buffer_printable(&shown, text, terminal.is_tty && !terminal.utf8);
	if (shown.size)
		fwrite(shown.data, 1, shown.size, out);
	buffer_release(&shown);
}
