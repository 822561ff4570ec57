/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in fixed arrays: what does not fit is cut off, and the text always ends with a zero. Without libc. */
#ifndef RECORDER_TEXT_H
#define RECORDER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool text_begins(const char *text, const char *with)
{
	while (*with && *text == *with) {
		text++;
		with++;
	}
	return *with == 0;
}

static inline bool text_is(const char *text, const char *word)
{
	while (*word && *text == *word) {
		text++;
		word++;
	}
	return *word == 0 && *text == 0;
}

/* Both append at `at` and return the new end. */
static inline size_t text_append(char *to, size_t at, size_t room, const char *text)
{
	for (; *text && at + 1 < room; text++)
		to[at++] = *text;
	to[at] = 0;
	return at;
}

static inline size_t text_append_number(char *to, size_t at, size_t room, uint64_t number)
{
	char digits[24];
	size_t n = sizeof digits - 1;

	digits[n] = 0;
	do
		digits[--n] = (char)('0' + number % 10);
	while ((number /= 10) != 0);
	return text_append(to, at, room, digits + n);
}
#endif
