/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing buffer that encoders write to. Not in the recorder: it allocates.
 * Invariant: size <= room, and nothing is written after failed was set.
 */
#include "format/recording/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/varint.h"

void bytes_release(struct bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct bytes){ 0 };
}

uint8_t *bytes_reserve(struct bytes *bytes, size_t more)
{
	size_t need, room;
	uint8_t *data;

	ASSERT(bytes->size <= bytes->room);
	if (bytes->failed)
		return NULL;
	if (more <= bytes->room - bytes->size && bytes->data)
		return bytes->data + bytes->size;
	if (!checked_add(bytes->size, more, &need) || need > SIZE_MAX / 4) {
		bytes->failed = true;
		return NULL;
	}
	room = MAX(need + need / 2, (size_t)256);
	data = realloc(bytes->data, room);
	if (!data) {
		bytes->failed = true;
		return NULL;
	}
	bytes->data = data;
	bytes->room = room;
	return data + bytes->size;
}

void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
	uint8_t *out = bytes_reserve(bytes, size);

	if (!out || size == 0)
		return;
	memcpy(out, data, size);
	bytes->size += size;
}

void bytes_put_zeros(struct bytes *bytes, size_t size)
{
	uint8_t *out = bytes_reserve(bytes, size);

	if (!out || size == 0)
		return;
	memset(out, 0, size);
	bytes->size += size;
}

void bytes_put_u8(struct bytes *bytes, uint8_t value)
{
	bytes_put(bytes, &value, sizeof value);
}

void bytes_put_varint(struct bytes *bytes, uint64_t value)
{
	uint8_t *out = bytes_reserve(bytes, VARINT_MAX_BYTES);

	if (out)
		bytes->size += varint_put(out, VARINT_MAX_BYTES, value);
}

void bytes_put_text(struct bytes *bytes, const char *text)
{
	size_t length = text ? strlen(text) : 0;

	bytes_put_varint(bytes, length);
	bytes_put(bytes, text, length);
}
