/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64-bit mixing for hash tables inside one process or one file. Neither a checksum nor resistant to
 * chosen input: equal hashes do not prove equality.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Every input bit affects every output bit; a bijection (Stafford's Mix13, as in SplitMix64). */
static inline uint64_t hash_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	return x;
}

/* Adds a value to a running hash; the order of the values matters. */
static inline uint64_t hash_combine(uint64_t hash, uint64_t value)
{
	return hash_mix(hash * UINT64_C(0x9e3779b97f4a7c15) + value);
}

/* Hashes a run of bytes. The same on every little-endian machine, so it may be stored. */
static inline uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t hash = hash_combine(seed, size);
	uint64_t word;

	for (; size >= sizeof word; size -= sizeof word, p += sizeof word) {
		__builtin_memcpy(&word, p, sizeof word);
		hash = hash_combine(hash, word);
	}
	if (size == 0)
		return hash;
	word = 0;
	__builtin_memcpy(&word, p, size);
	return hash_combine(hash, word);
}

#endif
