/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing byte buffer. Owns its memory; one thread at a time.
 * Invariant: size <= capacity, and data has capacity bytes. A failed buffer keeps its contents from
 * before the failure.
 */
#include "util/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

void buffer_release(struct buffer *b)
{
	free(b->data);
	*b = BUFFER_INIT;
}

void buffer_clear(struct buffer *b)
{
	b->size = 0;
	b->failed = false;
}

void *buffer_reserve(struct buffer *b, size_t extra)
{
	size_t wanted;
	uint8_t *grown;

	ASSERT(b->size <= b->capacity);
	if (b->failed)
		return NULL;
	if (!checked_add(b->size, extra, &wanted)) {
		b->failed = true;
		return NULL;
	}
	if (b->data && wanted <= b->capacity)
		return b->data + b->size;
	wanted = MAX(wanted, b->capacity + b->capacity / 2);
	wanted = MAX(wanted, (size_t)64);
	grown = realloc(b->data, wanted);
	if (!grown) {
		b->failed = true;
		return NULL;
	}
	b->data = grown;
	b->capacity = wanted;
	return b->data + b->size;
}

void buffer_append(struct buffer *b, const void *data, size_t size)
{
	void *room;

	if (size == 0)
		return;
	room = buffer_reserve(b, size);
	if (!room)
		return;
	memcpy(room, data, size);
	b->size += size;
}

void buffer_text(struct buffer *b, const char *text)
{
	buffer_append(b, text, strlen(text));
}

void buffer_char(struct buffer *b, char c)
{
	buffer_append(b, &c, 1);
}

void buffer_fill(struct buffer *b, char c, size_t count)
{
	void *room = buffer_reserve(b, count);

	if (!room)
		return;
	memset(room, c, count);
	b->size += count;
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
	va_list args, again;
	int length;
	char *room = NULL;

	va_start(args, format);
	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
	if (length < 0)
		b->failed = true;
	else
		room = buffer_reserve(b, (size_t)length + 1);
	if (room) {
		vsnprintf(room, (size_t)length + 1, format, again);
		b->size += (size_t)length;
	}
	va_end(again);
	va_end(args);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "byte order");

void buffer_u32(struct buffer *b, uint32_t value)
{
	buffer_append(b, &value, sizeof value);
}

void buffer_u64(struct buffer *b, uint64_t value)
{
	buffer_append(b, &value, sizeof value);
}

void buffer_patch(struct buffer *b, size_t offset, const void *data, size_t size)
{
	/* After a failure the offset may refer to bytes that were never written. */
	if (b->failed)
		return;
	ASSERT(range_within(offset, size, b->size));
	memcpy(b->data + offset, data, size);
}

char *buffer_string(struct buffer *b)
{
	char *end = buffer_reserve(b, 1);

	if (!end)
		return NULL;
	*end = '\0';
	return (char *)b->data;
}

char *buffer_take_string(struct buffer *b)
{
	char *text = buffer_string(b);

	if (text)
		*b = BUFFER_INIT;
	return text;
}
