/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc and mimalloc round alike: small sizes to 16 bytes, others to a quarter of the power of two below, so that there are four
 * classes for each doubling; mimalloc rounds large ones to slices of 64 KiB. Blocks that were allocated with an alignment may have more.
 *
 * Pure; any thread. tests/e2e/process/test_pages.py compares with malloc_usable_size of each.
 */
#include "collect/process/usable_sizes.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/profile/blocks.h"

enum {
	QUANTUM = 16,
	LEAST = 8,
	JEMALLOC_SMALL = 128,
	MIMALLOC_SMALL = 64,
	MIMALLOC_MEDIUM = 128 << 10,
	MIMALLOC_SLICE = 64 << 10,
};

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
	return saturating_add(bytes, step - 1) & ~(step - 1);
}

/* Four classes between two powers of two. Pre: bytes > 8. */
static uint64_t quarter(uint64_t bytes)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(bytes - 1);

	return round_up(bytes, UINT64_C(1) << (bits - 3));
}

static uint64_t jemalloc_usable(uint64_t bytes)
{
	if (bytes <= LEAST)
		return LEAST;
	return bytes <= JEMALLOC_SMALL ? round_up(bytes, QUANTUM) : quarter(bytes);
}

static uint64_t mimalloc_usable(uint64_t bytes)
{
	if (bytes <= LEAST)
		return LEAST;
	if (bytes <= MIMALLOC_SMALL)
		return round_up(bytes, QUANTUM);
	return bytes <= MIMALLOC_MEDIUM ? quarter(bytes) : round_up(bytes, MIMALLOC_SLICE);
}

usable_size *usable_size_of(const char *allocator)
{
	static const struct {
		const char *prefix;
		usable_size *usable;
	} known[] = {
		{ "glibc", block_glibc_usable_bytes },
		{ "libjemalloc.so", jemalloc_usable },
		{ "libmimalloc.so", mimalloc_usable },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strncmp(allocator, known[i].prefix, strlen(known[i].prefix)) == 0)
			return known[i].usable;
	return NULL;
}
