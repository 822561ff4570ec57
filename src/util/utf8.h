/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as RFC 3629 has it: no overlong spelling, no surrogates, nothing above U+10FFFF. Names come
 * from other people's binaries and may be any bytes.
 */
#ifndef UTIL_UTF8_H
#define UTIL_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the sequence at the start of text: 1 to 4, or 0 if there is no valid one. */
size_t utf8_sequence(struct span text);
/* What such a sequence stands for. */
uint32_t utf8_code_point(const uint8_t *sequence, size_t length);

#endif
