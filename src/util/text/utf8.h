/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as in RFC 3629: no overlong encodings, no surrogates, nothing above U+10FFFF. Names come
 * from other programs' binaries and may be any bytes.
 */
#ifndef UTIL_TEXT_UTF8_H
#define UTIL_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The length of the sequence at the start of text: 1 to 4, or 0 if it is not valid. */
size_t utf8_sequence(struct span text);
/* The code point of such a sequence. */
uint32_t utf8_code_point(const uint8_t *sequence, size_t length);

#endif
