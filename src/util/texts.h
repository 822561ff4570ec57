/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string table for a file: each text once and NUL-terminated, referred to by its offset. The first is empty, so that 0 can
 * mean "none". All zero is empty. One thread at a time.
 */
#ifndef UTIL_TEXTS_H
#define UTIL_TEXTS_H

#include <stdint.h>

#include "base/span.h"
#include "util/buffer.h"
#include "util/intern.h"

struct texts {
	struct buffer bytes; /* failed: out of memory, or more than 4 GiB; texts were lost */
	struct intern known; /* the value of a text is its offset */
};

void texts_release(struct texts *texts);
/* The text's offset; 0 if text is NULL or empty, or if the table has failed. */
uint32_t texts_add(struct texts *texts, const char *text);
uint32_t texts_add_span(struct texts *texts, struct span text);

#endif
