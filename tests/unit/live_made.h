/* SPDX-License-Identifier: Apache-2.0 */
/* A live profile made by hand, as a recorder would write it: for tests of its readers and of the collector. */
#ifndef UNIT_LIVE_MADE_H
#define UNIT_LIVE_MADE_H

#include <string.h>

#include "format/live/live.h"

struct made {
	struct live_header *head;
};

static inline void *made_at(struct made *made, enum live_region region)
{
	return (char *)made->head + made->head->region[region].at;
}

/* Appends zeroed entries and returns the index of the first. */
static inline uint32_t made_append(struct made *made, enum live_region region, uint64_t count)
{
	uint64_t first = made->head->used[region];

	__atomic_store_n(&made->head->used[region], first + count, __ATOMIC_RELEASE);
	return (uint32_t)first;
}

static inline struct live_site_counters *made_counters(struct made *made, uint32_t id)
{
	return (struct live_site_counters *)made_at(made, LIVE_SITE_COUNTERS) + id;
}

static inline struct live_slot *made_slot(struct made *made, uint32_t id)
{
	return (struct live_slot *)made_at(made, LIVE_SLOTS) + id;
}

static inline uint32_t made_module(struct made *made, const char *path)
{
	uint32_t id = made_append(made, LIVE_MODULES, 1);
	uint32_t at = made_append(made, LIVE_STRINGS, strlen(path));
	struct live_module *module = (struct live_module *)made_at(made, LIVE_MODULES) + id;

	memcpy((char *)made_at(made, LIVE_STRINGS) + at, path, strlen(path));
	*module = (struct live_module){ .start = 0x1000 * id,
					.end = 0x1000 * id + 0x800,
					.bias = 0x100,
					.path_at = at,
					.path_bytes = (uint32_t)strlen(path),
					.build_id_bytes = 20 };
	return id;
}

static inline uint32_t made_frame(struct made *made, uint64_t word)
{
	uint32_t id = made_append(made, LIVE_FRAMES, 1);

	((uint64_t *)made_at(made, LIVE_FRAMES))[id] = word;
	return id;
}

static inline uint32_t made_node(struct made *made, uint32_t parent, uint32_t frame)
{
	uint32_t id = made_append(made, LIVE_NODES, 1);

	((struct live_node *)made_at(made, LIVE_NODES))[id] = (struct live_node){ parent, frame };
	return id;
}

static inline uint32_t made_site(struct made *made, uint32_t node, enum live_kind kind)
{
	uint32_t id = made_append(made, LIVE_SITES, 1);

	((struct live_site *)made_at(made, LIVE_SITES))[id] =
		(struct live_site){ .key = id, .node = node, .kind = kind, .born_ms = 5 };
	return id;
}

/* A record whose calls all asked for `size` bytes. */
static inline uint32_t made_counts(struct made *made, uint32_t site, uint32_t slot, uint64_t size,
				   uint64_t calls, uint64_t frees)
{
	uint32_t id = made_append(made, LIVE_SITE_COUNTERS, 1);
	struct live_site_counters *counters = made_counters(made, id);

	*counters = (struct live_site_counters){ .thread = slot,
						 .calls = calls,
						 .bytes = calls * size,
						 .frees = frees,
						 .freed_bytes = frees * size,
						 .first_size = size,
						 .epoch = UINT32_MAX };
	__atomic_store_n(&counters->site, site, __ATOMIC_RELEASE);
	return id;
}

/* What a recorder does at start-up: the fixed entries, one slot, one thread. head was made by live_header_init. */
static inline void made_start(struct made *made, struct live_header *head)
{
	made->head = head;
	head->pid = 4711;
	head->granule_shift = 4;
	head->depth_limit = 256;
	memcpy(head->allocator, "glibc", 6);
	made_append(made, LIVE_MODULES, 1);
	made_append(made, LIVE_FRAMES, 1);
	made_append(made, LIVE_NODES, 1);
	made_append(made, LIVE_SITE_COUNTERS, 1);
	made_append(made, LIVE_POOL, 1);
	made_append(made, LIVE_SITES, 1);
	for (uint32_t mark = LIVE_FRAME_CUT; mark <= LIVE_FRAME_STACK_OFF; mark++)
		made_node(made, 0, made_frame(made, live_frame_pack(0, mark, 0)));
	made_site(made, LIVE_FRAME_OTHER, LIVE_KIND_HEAP);
	made_site(made, LIVE_FRAME_OTHER, LIVE_KIND_MMAP);
	made_site(made, LIVE_FRAME_OTHER, LIVE_KIND_POOL);
	made_site(made, LIVE_FRAME_OTHER, LIVE_KIND_FREED);
	made_site(made, LIVE_FRAME_OTHER, LIVE_KIND_TIMED);
	made_append(made, LIVE_SLOTS, 1);
	__atomic_store_n(&head->ready, 1, __ATOMIC_RELEASE);
}

/* The era of a word of a leaf, which is made. */
static inline uint16_t *made_era(struct made *made, const uint64_t *word)
{
	uint64_t offset = (uint64_t)((const char *)word - (char *)made_at(made, LIVE_LEAVES));
	uint32_t *number = (uint32_t *)made_at(made, LIVE_LEAF_ERAS) + offset / LIVE_LEAF_UNIT;

	if (made->head->used[LIVE_LEAF_ERAS] <= offset / LIVE_LEAF_UNIT)
		made->head->used[LIVE_LEAF_ERAS] = offset / LIVE_LEAF_UNIT + 1;
	if (*number == 0)
		*number = made_append(made, LIVE_ERAS, 1) + 1;
	return (uint16_t *)(void *)((char *)made_at(made, LIVE_ERAS) +
				    (uint64_t)(*number - 1) * LIVE_ERA_UNIT) +
	       offset % LIVE_LEAF_UNIT / sizeof *word;
}

/* Puts a small block into the map; address below 4 GiB. */
static inline void made_small_block(struct made *made, uint64_t address, uint32_t counters,
				    uint32_t size, uint64_t birth_ms)
{
	struct live_area *area = made_at(made, LIVE_AREAS);
	uint64_t *leaf;

	if (made->head->top[0] == 0)
		made->head->top[0] = made_append(made, LIVE_AREAS, 1) + 1;
	if (area->small[address >> LIVE_SMALL_SHIFT] == 0)
		area->small[address >> LIVE_SMALL_SHIFT] = made_append(made, LIVE_LEAVES, 2) + 1;
	leaf = (uint64_t *)(void *)((char *)made_at(made, LIVE_LEAVES) +
				    (uint64_t)(area->small[address >> LIVE_SMALL_SHIFT] - 1) *
					    LIVE_LEAF_UNIT);
	leaf += (address & ((1u << LIVE_SMALL_SHIFT) - 1)) >> made->head->granule_shift;
	if (live_era(birth_ms) != 0)
		*made_era(made, leaf) = (uint16_t)live_era(birth_ms);
	*leaf = live_small_pack(counters, size, (uint32_t)birth_ms & LIVE_BIRTH_MASK,
				live_small_place_of(address));
}

#endif
