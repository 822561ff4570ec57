/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer. Running out of memory sets `failed`, which is sticky and makes later
 * appends no-ops: a builder appends a whole document and checks once at its end.
 */
#ifndef UTIL_BUFFER_H
#define UTIL_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

struct buffer {
	uint8_t *data; /* owned; NULL while empty */
	size_t size;
	size_t capacity;
	bool failed;
};

#define BUFFER_INIT ((struct buffer){ 0 })

/* Frees the memory; the buffer is empty and usable again. */
void buffer_release(struct buffer *b);
/* Empties it and keeps the memory. */
void buffer_clear(struct buffer *b);

/*
 * Reserves extra bytes and returns a pointer to them, or NULL if out of memory. Does not change the
 * size.
 */
void *buffer_reserve(struct buffer *b, size_t extra);

void buffer_append(struct buffer *b, const void *data, size_t size);
void buffer_text(struct buffer *b, const char *text);
void buffer_char(struct buffer *b, char c);
void buffer_fill(struct buffer *b, char c, size_t count);
void buffer_printf(struct buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);

/* Little-endian numbers, as struct cursor reads them. */
void buffer_u32(struct buffer *b, uint32_t value);
void buffer_u64(struct buffer *b, uint64_t value);

/*
 * Overwrites bytes that were written before, e.g. a length known only now. The range must be
 * inside.
 */
void buffer_patch(struct buffer *b, size_t offset, const void *data, size_t size);

/*
 * NUL-terminates the contents (not counted in size) and returns them; NULL if failed. Owned by the
 * buffer.
 */
char *buffer_string(struct buffer *b);
/* Like buffer_string, but the caller owns the memory (free) and the buffer becomes empty. */
char *buffer_take_string(struct buffer *b);

static inline struct span buffer_span(const struct buffer *b)
{
	return span_of(b->data, b->size);
}

#endif
