/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LEB128: seven bits per byte, lowest first, the top bit set on all bytes but the last. Signed
 * numbers are zigzagged first (0, -1, 1, -2, ...), so that small ones of either sign are short.
 */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define VARINT_MAX_BYTES 10

/*
 * Writes value to out; returns the bytes written, or 0 if room is too small (nothing is written
 * then).
 */
size_t varint_put(uint8_t *out, size_t room, uint64_t value);

/*
 * Reads one number from data; returns the bytes consumed, or 0 if it is truncated or does not fit
 * 64 bits (*ret is unchanged then). Encodings longer than necessary are accepted, so that a length
 * can be patched in place.
 */
size_t varint_get(const uint8_t *data, size_t size, uint64_t *ret);

static inline uint64_t zigzag_encode(int64_t value)
{
	return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t zigzag_decode(uint64_t value)
{
	return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

#endif
