/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only way to read untrusted bytes. A read past the end returns zero (an empty span) and sets
 * `failed`, which is sticky: a decoder reads a whole record and checks once at its end.
 *
 *	struct cursor c = cursor_over(span);
 *	uint32_t kind = cursor_u32(&c);
 *	uint64_t size = cursor_varint(&c);
 *	if (c.failed)
 *		return error_set(err, "cut off at byte %zu", cursor_offset(&c));
 *
 * Numbers are little-endian and need no alignment. After a failure the position stays at the start of
 * the failed read, and all later reads fail.
 */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct cursor {
	const uint8_t *start;
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

struct cursor cursor_over(struct span bytes);

/* The next size bytes, not copied; empty on failure. */
struct span cursor_bytes(struct cursor *c, size_t size);
/* Copies the next size bytes to out; zeroes out on failure. */
bool cursor_copy(struct cursor *c, void *out, size_t size);
void cursor_skip(struct cursor *c, size_t size);
/* Moves to an offset from the start. */
void cursor_seek(struct cursor *c, size_t offset);

uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
uint64_t cursor_varint(struct cursor *c);
int64_t cursor_zigzag(struct cursor *c);
/* A varint length and that many bytes. */
struct span cursor_counted(struct cursor *c);

/* For a decoder that finds an invalid value: the same sticky flag as for truncation. */
void cursor_fail(struct cursor *c);

static inline size_t cursor_offset(const struct cursor *c)
{
	return (size_t)(c->at - c->start);
}

static inline size_t cursor_left(const struct cursor *c)
{
	return c->failed ? 0 : (size_t)(c->end - c->at);
}

#endif
