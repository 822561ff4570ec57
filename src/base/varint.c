/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variable-length integers. Pure functions over memory of the caller; used on both sides, from any
 * thread.
 * Invariant: varint_get(varint_put(v)) == v, and varint_put writes the shortest encoding.
 */
#include "base/varint.h"

static size_t size_of(uint64_t value)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);

	return (bits + 6) / 7;
}

size_t varint_put(uint8_t *out, size_t room, uint64_t value)
{
	size_t size = size_of(value);

	if (size > room)
		return 0;
	for (size_t i = 0; i + 1 < size; i++, value >>= 7)
		out[i] = (uint8_t)(value | 0x80);
	out[size - 1] = (uint8_t)value;
	return size;
}

size_t varint_get(const uint8_t *data, size_t size, uint64_t *ret)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size && i < VARINT_MAX_BYTES; i++) {
		uint64_t low = data[i] & 0x7f;

		/* The tenth byte contains only bit 63. */
		if (i == VARINT_MAX_BYTES - 1 && data[i] > 1)
			return 0;
		value |= low << (7 * i);
		if (!(data[i] & 0x80)) {
			*ret = value;
			return i + 1;
		}
	}
	return 0;
}
