/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sanitizes untrusted text for a terminal: names, paths and commands come from other programs and may contain anything.
 * Characters with side effects are shown as '?': control characters (C0, DEL, C1, in UTF-8 or as a bare byte), which move the
 * cursor and worse, and those that change the writing direction or start a line, which make a text look like another one.
 */
#ifndef UTIL_TEXT_PRINTABLE_H
#define UTIL_TEXT_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/span.h"
#include "util/buffer.h"

bool printable_character(uint32_t code_point);

/* The length of the first character in bytes, at least 1; *ret_printable: it is valid UTF-8 and harmless. Pre: the text is not
 * empty. */
size_t printable_step(struct span text, bool *ret_printable);

/* Shows newlines and tabs as '?' too: a name has none. ascii: for a terminal without UTF-8, which may interpret parts of a
 * sequence as control characters. */
void buffer_printable(struct buffer *b, const char *text, bool ascii);

/* Writes to a stream, depending on the terminal at its other end. */
void print_printable(FILE *out, const char *text);

/* Keeps newlines. */
void buffer_printable_lines(struct buffer *b, struct span text);

#endif
