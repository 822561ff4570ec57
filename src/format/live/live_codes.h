/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings in the live profile: block map entries, births, size buckets, frames. Included by format/live/live.h. */
#ifndef FORMAT_LIVE_LIVE_CODES_H
#define FORMAT_LIVE_LIVE_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "format/live/live.h"

/* doc: live_small: one word for each granule of 2^granule_shift bytes in which a block begins; 0 = none.
 * Requests below LIVE_SMALL_LIMIT bytes. */
#define LIVE_SMALL_SIZE_BITS 12
#define LIVE_SMALL_PLACE_BITS 2
#define LIVE_SMALL_BIRTH_BITS 25
#define LIVE_SMALL_COUNTERS_BITS 25
/* Which 8 bytes of a 32-byte granule the block starts at. */
static inline uint32_t live_small_place_of(uint64_t address)
{
	return (uint32_t)(address >> 3) & 3;
}
static inline uint64_t live_small_pack(uint32_t counters, uint32_t size_bytes, uint32_t birth_code,
				       uint32_t place)
{
	return (uint64_t)counters << 39 | (uint64_t)birth_code << 14 |
	       (uint64_t)place << LIVE_SMALL_SIZE_BITS | size_bytes;
}
static inline uint32_t live_small_place(uint64_t word)
{
	return (uint32_t)(word >> LIVE_SMALL_SIZE_BITS) & 3;
}
static inline uint32_t live_small_counters(uint64_t word)
{
	return (uint32_t)(word >> 39);
}
static inline uint32_t live_small_size(uint64_t word)
{
	return (uint32_t)word & ((1u << LIVE_SMALL_SIZE_BITS) - 1);
}
static inline uint32_t live_small_birth(uint64_t word)
{
	return (uint32_t)(word >> 14) & ((1u << LIVE_SMALL_BIRTH_BITS) - 1);
}

/* doc: live_large: one entry for each page in which a larger block begins. `address` is stored last and cleared first. */
struct live_large {
	uint64_t address; /* 0 = none */
	uint64_t size_bytes;
	uint64_t birth_ms;
	uint32_t counters;
	uint32_t pad;
};
_Static_assert(sizeof(struct live_large) == 32, "on-disk size");

/* doc: live_sampled: a block that is a sample, in any order. `address` is stored last and cleared first. */
struct live_sampled {
	uint64_t address;    /* 0 = none */
	uint64_t size_bytes; /* without an address: private to the recorder */
	uint64_t birth_ms;
	uint64_t weight; /* number of blocks it represents */
	uint32_t counters;
	uint32_t pad;
};
_Static_assert(sizeof(struct live_sampled) == 40, "on-disk size");

/* The birth of a block is a time of the clock in milliseconds. A word has the lower 25 bits, which wrap every 9.3 hours; the
 * rest is the era, in LIVE_ERAS: 16 bits, so that births are exact for 69 years. A code with all bits set means that the era
 * could not be stored and the birth is unknown. The clock skips these values, so that no other block has that code. */
#define LIVE_BIRTH_MASK ((1u << LIVE_SMALL_BIRTH_BITS) - 1)
#define LIVE_BIRTH_UNKNOWN LIVE_BIRTH_MASK
static inline uint64_t live_era(uint64_t birth_ms)
{
	return birth_ms >> LIVE_SMALL_BIRTH_BITS;
}
static inline uint64_t live_birth(uint64_t era, uint32_t code)
{
	return era << LIVE_SMALL_BIRTH_BITS | code;
}
static inline bool live_birth_is_known(uint64_t birth_ms)
{
	return (birth_ms & LIVE_BIRTH_MASK) != LIVE_BIRTH_UNKNOWN;
}
/* The value of the clock `ms` after the profile was created. */
static inline uint64_t live_clock(uint64_t ms)
{
	return live_birth_is_known(ms) ? ms : ms - 1;
}

/* Half octaves: 0 -> 0, 1 -> 1, then two buckets for each power of two; the last is open-ended. */
static inline unsigned live_size_bucket(uint64_t size)
{
	if (size < 2)
		return (unsigned)size;
	unsigned log = 63u - (unsigned)__builtin_clzll(size);
	unsigned bucket = 2 * log + (unsigned)(size >> (log - 1) & 1);
	return bucket < LIVE_SIZE_BUCKETS ? bucket : LIVE_SIZE_BUCKETS - 1;
}
static inline uint64_t live_size_bucket_floor(unsigned bucket)
{
	if (bucket < 2)
		return bucket;
	return (2ull + (bucket & 1)) << (bucket / 2 - 1);
}
static inline uint64_t live_size_bucket_last(unsigned bucket)
{
	return bucket + 1 < LIVE_SIZE_BUCKETS ? live_size_bucket_floor(bucket + 1) - 1 : UINT64_MAX;
}

/* A frame in 64 bits: bit 63 = the address is exact (a signal frame: symbolize pc, not pc - 1), bits 47..62 module, bits 0..46
 * offset = pc - bias. Module 0 is no module: the offset is one of the LIVE_FRAME_* markers below, or the bare pc. */
enum live_frame_mark {
	LIVE_FRAME_CUT =
		1, /* deeper than the depth limit: frames further towards the root were dropped */
	LIVE_FRAME_STOPPED =
		2, /* the walk ends here: no unwind information, or unreadable stack memory */
	LIVE_FRAME_OTHER = 3,	  /* the stack was not stored: memory budget, or lock timeout */
	LIVE_FRAME_STACK_OFF = 4, /* not unwound: tags mode, or a size limit */
};
static inline uint64_t live_frame_pack(uint32_t module, uint64_t offset, int exact)
{
	return (uint64_t)(exact != 0) << 63 | (uint64_t)module << 47 |
	       (offset & ((1ull << 47) - 1));
}
static inline uint32_t live_frame_module(uint64_t frame)
{
	return (uint32_t)(frame >> 47) & 0xffff;
}
static inline uint64_t live_frame_offset(uint64_t frame)
{
	return frame & ((1ull << 47) - 1);
}
static inline int live_frame_exact(uint64_t frame)
{
	return (int)(frame >> 63);
}

/* The offset of a Python frame: bits 20..46 code object, bits 0..19 code unit of the instruction. */
enum { LIVE_CODE_IDS = 1 << 27, LIVE_CODE_UNITS = 1 << 20 };
static inline uint64_t live_code_offset(uint32_t code, uint64_t unit)
{
	return (uint64_t)code << 20 | (unit < LIVE_CODE_UNITS ? unit : LIVE_CODE_UNITS - 1);
}
static inline uint32_t live_code_id(uint64_t offset)
{
	return (uint32_t)(offset >> 20);
}
static inline uint32_t live_code_unit(uint64_t offset)
{
	return (uint32_t)offset & (LIVE_CODE_UNITS - 1);
}
#endif
