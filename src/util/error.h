/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors are values that the caller owns. A function that can fail takes `struct error *err` as its
 * last argument and returns a negative status; it sets err exactly when it fails. err may be NULL
 * if the caller does not need the message. Callers prepend context on the way up:
 *
 *	if (chunk_read(..., err) < 0)
 *		return error_wrap(err, "reading chunk %u at %zu", index, offset);
 *
 * gives "reading chunk 7 at 4096: checksum differs". Only cli/ prints.
 */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include "base/compiler.h"

#define ERROR_MESSAGE_BYTES 512

/* The message is truncated with "..." if it is too long; valid UTF-8 if its parts are. */
struct error {
	char message[ERROR_MESSAGE_BYTES];
	const char *hint; /* static text: what to do next, printed on a second line; NULL: none */
};

#define ERROR_INIT ((struct error){ .hint = NULL })

/* All return -1, so that they can be used in a return statement. */
int error_set(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);
/* Prepends "context: " to the message. */
int error_wrap(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);
/* Like error_set, followed by ": " and the text of the current errno. Preserves errno. */
int error_errno(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds a hint to the message that was just set. */
int error_hint(struct error *err, const char *hint);

#endif
