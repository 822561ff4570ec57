/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats errors into the caller's fixed buffer: reporting a failure must not fail, so nothing is
 * allocated. If a wrapped message is too long its end is truncated, because the outermost context
 * names what the user requested. Any thread.
 */
#include "util/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Ends a message that filled its buffer with "..."; never leaves a partial UTF-8 sequence before
 * it. */
static void mark_cut(char *message)
{
	size_t at = ERROR_MESSAGE_BYTES - sizeof "...";

	while (at > 0 && ((unsigned char)message[at] & 0xc0) == 0x80)
		at--;
	memcpy(message + at, "...", sizeof "...");
}

/* Appends to message at offset *at; *at may grow past the buffer, which indicates truncation. */
PRINTF_LIKE(3, 0)
static void append(char *message, size_t *at, const char *format, va_list args)
{
	size_t from = MIN(*at, (size_t)ERROR_MESSAGE_BYTES - 1);
	int n = vsnprintf(message + from, ERROR_MESSAGE_BYTES - from, format, args);

	if (n > 0)
		*at += (size_t)n;
}

PRINTF_LIKE(3, 4)
static void append_words(char *message, size_t *at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(message, at, format, args);
	va_end(args);
}

/* Formats the message, followed by `rest` (NULL: nothing). */
PRINTF_LIKE(3, 0)
static void tell(struct error *err, const char *rest, const char *format, va_list args)
{
	size_t at = 0;

	append(err->message, &at, format, args);
	if (rest)
		append_words(err->message, &at, ": %s", rest);
	if (at >= ERROR_MESSAGE_BYTES)
		mark_cut(err->message);
}

int error_set(struct error *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (err) {
		tell(err, NULL, format, args);
		err->hint = NULL;
	}
	va_end(args);
	return -1;
}

int error_hint(struct error *err, const char *hint)
{
	if (err)
		err->hint = hint;
	return -1;
}

int error_wrap(struct error *err, const char *format, ...)
{
	char inner[ERROR_MESSAGE_BYTES];
	va_list args;

	if (!err)
		return -1;
	memcpy(inner, err->message, sizeof inner);
	va_start(args, format);
	tell(err, inner, format, args);
	va_end(args);
	return -1;
}

int error_errno(struct error *err, const char *format, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, format);
	if (err) {
		tell(err, strerror(saved), format, args);
		err->hint = NULL;
	}
	va_end(args);
	errno = saved;
	return -1;
}
