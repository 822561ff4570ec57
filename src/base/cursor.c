/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds-checked reader. Owns nothing; the bytes belong to the caller.
 * Invariant: start <= at <= end, and after failed was set the position no longer changes.
 */
#include "base/cursor.h"

#include "base/compiler.h"
#include "base/varint.h"

static const uint8_t nothing[1];

struct cursor cursor_over(struct span bytes)
{
	/* Never NULL internally: arithmetic on a null pointer is undefined even when it adds zero. */
	const uint8_t *data = bytes.size ? bytes.data : nothing;

	return (struct cursor){ .start = data, .at = data, .end = data + bytes.size };
}

void cursor_fail(struct cursor *c)
{
	c->failed = true;
}

struct span cursor_bytes(struct cursor *c, size_t size)
{
	const uint8_t *at = c->at;

	ASSERT(c->start <= c->at && c->at <= c->end);
	if (UNLIKELY(size > cursor_left(c))) {
		c->failed = true;
		return (struct span){ 0 };
	}
	/* After a failure, reading 0 bytes fails too. */
	if (UNLIKELY(c->failed))
		return (struct span){ 0 };
	c->at += size;
	return span_of(at, size);
}

bool cursor_copy(struct cursor *c, void *out, size_t size)
{
	struct span bytes = cursor_bytes(c, size);

	if (c->failed) {
		__builtin_memset(out, 0, size);
		return false;
	}
	__builtin_memcpy(out, bytes.data, size);
	return true;
}

void cursor_skip(struct cursor *c, size_t size)
{
	(void)cursor_bytes(c, size);
}

void cursor_seek(struct cursor *c, size_t offset)
{
	if (c->failed || offset > (size_t)(c->end - c->start)) {
		c->failed = true;
		return;
	}
	c->at = c->start + offset;
}

/* Both supported architectures are little-endian, so a copy is the conversion. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "byte order");

uint8_t cursor_u8(struct cursor *c)
{
	uint8_t value;

	cursor_copy(c, &value, sizeof value);
	return value;
}

uint16_t cursor_u16(struct cursor *c)
{
	uint16_t value;

	cursor_copy(c, &value, sizeof value);
	return value;
}

uint32_t cursor_u32(struct cursor *c)
{
	uint32_t value;

	cursor_copy(c, &value, sizeof value);
	return value;
}

uint64_t cursor_u64(struct cursor *c)
{
	uint64_t value;

	cursor_copy(c, &value, sizeof value);
	return value;
}

uint64_t cursor_varint(struct cursor *c)
{
	uint64_t value = 0;
	size_t used = varint_get(c->at, cursor_left(c), &value);

	if (UNLIKELY(used == 0)) {
		c->failed = true;
		return 0;
	}
	c->at += used;
	return value;
}

int64_t cursor_zigzag(struct cursor *c)
{
	return zigzag_decode(cursor_varint(c));
}

struct span cursor_counted(struct cursor *c)
{
	const uint8_t *at = c->at;
	uint64_t size = cursor_varint(c);
	struct span bytes = cursor_bytes(c, size);

	if (UNLIKELY(c->failed))
		c->at = at;
	return bytes;
}
