/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of the regions of a live profile. The header contains the result, so that a reader never computes it: this table
 * may change between versions without a change of format.
 *
 * Each region gets a share of the total, at least what a small program needs and at most what its ids can address. The leaves
 * of the block map get the rest, since live blocks grow with the program. Everything is sparse: a region costs only its opened
 * part.
 *
 * Compiled into the recorder too: no libc, no allocation. Pure functions, any thread.
 * Invariant: regions are adjacent, in the order of enum live_region, aligned to LIVE_REGION_ALIGN, and end within total_bytes.
 */
#include "format/live/live.h"

#include "base/checked.h"
#include "base/compiler.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* The entry size in bytes, and the share of the total, which is 1 / 2^shift. */
static const struct share {
	uint32_t entry_bytes;
	unsigned shift;
	uint64_t min_bytes, max_bytes;
} shares[LIVE_REGIONS] = {
	[LIVE_MODULES] = { sizeof(struct live_module), 13, KIB(64),
			   65536 * sizeof(struct live_module) }, /* 16 bits in a frame */
	[LIVE_STRINGS] = { 1, 10, KIB(128), GIB(1) },
	[LIVE_FRAMES] = { sizeof(uint64_t), 9, KIB(256), GIB(8) },
	[LIVE_NODES] = { sizeof(struct live_node), 7, KIB(512), GIB(16) },
	[LIVE_SITES] = { sizeof(struct live_site), 7, KIB(512), GIB(16) },
	[LIVE_SITE_COUNTERS] = { sizeof(struct live_site_counters), 4, MIB(2),
				 sizeof(struct live_site_counters) << LIVE_SMALL_COUNTERS_BITS },
	[LIVE_POOL] = { LIVE_POOL_UNIT, 3, MIB(2),
			(uint64_t)LIVE_POOL_UNIT << 31 }, /* the top bit of a reference is a flag */
	[LIVE_SLOTS] = { sizeof(struct live_slot), 15, KIB(64),
			 LIVE_SLOTS_MAX * sizeof(struct live_slot) },
	[LIVE_THREADS] = { sizeof(struct live_thread), 9, KIB(128),
			   LIVE_SLOTS_MAX * sizeof(struct live_thread) },
	[LIVE_TAGS] = { sizeof(struct live_tag), 11, KIB(64), GIB(1) },
	[LIVE_VISITS] = { sizeof(struct live_visits), 11, KIB(64), GIB(1) },
	[LIVE_MARKS] = { sizeof(struct live_mark), 12, KIB(64), GIB(1) },
	[LIVE_SAVED] = { sizeof(struct live_saved), 10, KIB(256), MIB(48) },
	[LIVE_SAMPLED] = { sizeof(struct live_sampled), 9, KIB(128), GIB(4) },
	[LIVE_AREAS] = { sizeof(struct live_area), 6, 16 * sizeof(struct live_area),
			 LIVE_TOP_ENTRIES * sizeof(struct live_area) },
	[LIVE_LEAVES] = { LIVE_LEAF_UNIT, 0, 16 * LIVE_LEAF_UNIT,
			  (uint64_t)LIVE_LEAF_UNIT << 31 }, /* min only: it gets the rest */
	[LIVE_LEAF_ERAS] = { sizeof(uint32_t), 15, KIB(64),
			     GIB(1) }, /* for as many units as fit into the total */
	[LIVE_ERAS] = { LIVE_ERA_UNIT, 4, 16 * LIVE_ERA_UNIT, (uint64_t)LIVE_ERA_UNIT << 31 },
	[LIVE_CODES] = { sizeof(struct live_code), 11, KIB(64), GIB(1) },
	[LIVE_SCRATCH] = { 1, 3, MIB(2), GIB(16) },
};

static uint64_t region_bytes(enum live_region region, uint64_t total_bytes)
{
	const struct share *share = &shares[region];
	uint64_t bytes = total_bytes >> share->shift;

	bytes = MAX(bytes, share->min_bytes);
	bytes = MIN(bytes, share->max_bytes);
	return bytes & ~(uint64_t)(LIVE_REGION_ALIGN - 1);
}

size_t live_entry_bytes(enum live_region region)
{
	return shares[region].entry_bytes;
}

int live_header_init(struct live_header *header, uint64_t total_bytes)
{
	uint64_t at = (sizeof *header + LIVE_REGION_ALIGN - 1) & ~(uint64_t)(LIVE_REGION_ALIGN - 1);
	uint64_t others = at;

	total_bytes &= ~(uint64_t)(LIVE_REGION_ALIGN - 1);
	if (total_bytes < LIVE_TOTAL_MIN)
		return -1;
	for (unsigned i = 0; i < LIVE_REGIONS; i++)
		others += i == LIVE_LEAVES ? 0 : region_bytes(i, total_bytes);
	ASSERT(others + shares[LIVE_LEAVES].min_bytes <= total_bytes);

	__builtin_memcpy(header->magic, LIVE_MAGIC, sizeof header->magic);
	header->major = LIVE_MAJOR;
	header->minor = LIVE_MINOR;
	header->header_bytes = sizeof *header;
	header->incompatible = 0;
	header->compatible = 0;
	header->total_bytes = total_bytes;
	for (unsigned i = 0; i < LIVE_REGIONS; i++) {
		uint64_t bytes = region_bytes(i, total_bytes);

		if (i == LIVE_LEAVES) {
			bytes = MIN(total_bytes - others, shares[i].max_bytes);
			bytes -= bytes % LIVE_LEAF_UNIT;
		}
		header->region[i] = (struct live_span){ .at = at, .bytes = bytes };
		at += bytes;
	}
	ASSERT(at <= total_bytes);
	return 0;
}

const char *live_regions_check(const struct live_span region[LIVE_REGIONS], uint64_t header_bytes,
			       uint64_t mapped_bytes)
{
	for (unsigned i = 0; i < LIVE_REGIONS; i++) {
		if (region[i].at % LIVE_PAGE != 0 || region[i].bytes % LIVE_PAGE != 0)
			return "a region is not page-aligned";
		if (region[i].at < header_bytes ||
		    !range_within(region[i].at, region[i].bytes, mapped_bytes))
			return "a region lies outside the memory";
		for (unsigned j = 0; j < i; j++) {
			/* Neither sum overflows: both regions are inside the memory. */
			if (region[i].at < region[j].at + region[j].bytes &&
			    region[j].at < region[i].at + region[i].bytes)
				return "two regions overlap";
		}
	}
	return NULL;
}

static bool is_live_profile(const struct live_header *header)
{
	return __builtin_memcmp(header->magic, LIVE_MAGIC, sizeof header->magic) == 0;
}

bool live_header_is_of_other_format(const struct live_header *header)
{
	return is_live_profile(header) &&
	       (header->major < LIVE_MAJOR_OLDEST || header->major > LIVE_MAJOR);
}

const char *live_header_check(const struct live_header *header, uint64_t mapped_bytes)
{
	uint32_t header_bytes;

	if (mapped_bytes < LIVE_FRONT_BYTES)
		return "too small for a live profile";
	if (!is_live_profile(header))
		return "not a live profile";
	if (live_header_is_of_other_format(header))
		return "written in another format";
	if (header->incompatible != 0)
		return "uses a feature that this version of heapgauge does not know";
	/* A later minor version may extend the header. */
	header_bytes = header->header_bytes;
	if (header_bytes < LIVE_FRONT_BYTES || header_bytes % LIVE_PAGE != 0 ||
	    header_bytes > mapped_bytes)
		return "the size of its header is wrong";
	if (header->total_bytes > mapped_bytes)
		return "only a part of it is mapped";
	return live_regions_check(header->region, header_bytes, mapped_bytes);
}
