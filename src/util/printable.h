/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of others for a terminal: names, paths and commands come from other people's programs and may hold anything. What would do
 * something there is shown as '?': control characters (C0, DEL, C1, in UTF-8 or as a bare byte), which move the cursor and worse,
 * and those that change the direction of writing or begin a line, which make a text look like another one.
 */
#ifndef UTIL_PRINTABLE_H
#define UTIL_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/span.h"
#include "util/buffer.h"

bool printable_character(uint32_t code_point);

/* Bytes of the character at the start of the text, at least 1; *ret_printable: it is valid UTF-8, and harmless. Pre: the text is not empty. */
size_t printable_step(struct span text, bool *ret_printable);

/* Also line ends and tabs are shown as '?': a name has none. ascii: for a terminal that does not understand UTF-8, whose parts may be
 * control characters to it. */
void buffer_printable(struct buffer *b, const char *text, bool ascii);

/* To a stream, by what is at its other end. */
void print_printable(FILE *out, const char *text);

/* All that the bytes hold but line ends. */
void buffer_printable_lines(struct buffer *b, struct span text);

#endif
