/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text (RFC 4648), for documents that hold text alone. */
#ifndef UTIL_TEXT_BASE64_H
#define UTIL_TEXT_BASE64_H

#include "base/span.h"
#include "util/buffer.h"

void base64_append(struct buffer *out, struct span bytes);

#endif
