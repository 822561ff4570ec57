/* SPDX-License-Identifier: Apache-2.0 */
/* Slots, the thread log, and remote frees by owner. Included by format/live/live.h. */
#ifndef FORMAT_LIVE_LIVE_THREADS_H
#define FORMAT_LIVE_LIVE_THREADS_H

#include <stdint.h>

#include "format/live/live.h"

/* doc: live_countdown: the allocations of sampling threads that `calls` and `bytes` of the slot do not have: all of them, less
 * what their samples stand for there, modulo 2^64. Their bytes are allotted - left, unless `changes` is odd. */
struct live_countdown {
	uint64_t left; /* bytes until the next call is examined */
	uint64_t calls;
	uint64_t allotted, changes;
};

/* doc: live_slot
 * Totals of the thread(s) that owned it. */
enum { LIVE_SLOTS_MAX = 1 << 20 };
struct live_slot {
	uint64_t calls, bytes, frees, freed_bytes; /* LIVE_KIND_HEAP */
	uint64_t fragmentation, freed_fragmentation;
	uint64_t temporary;
	uint64_t map_calls, map_bytes, unmap_calls, unmap_bytes; /* LIVE_KIND_MMAP */
	uint32_t tid;	 /* of the owner; changes when the slot is inherited */
	uint32_t thread; /* index of the owner's live_thread */
	struct live_countdown countdown;
};
_Static_assert(sizeof(struct live_slot) == 128, "on-disk size");

/* doc: live_thread
 * The slot's totals when the thread took it: the difference to the next owner's (or to the slot) is the thread's. */
enum { LIVE_NAME_BYTES = 16 };
struct live_thread {
	uint32_t tid, slot;
	uint64_t started_ms;
	uint64_t calls, bytes, frees, freed_bytes;
	char name[LIVE_NAME_BYTES]; /* comm at registration; the collector has later ones */
	/* For its counters: all frees of blocks that other threads allocated, by kind. */
	struct {
		uint64_t blocks, bytes;
	} remote[LIVE_MEMORY_KINDS];
	uint32_t
		counted_as; /* its own index, or that of an earlier thread whose counters it uses */
	uint32_t owners;    /* pool: struct live_owners; 0 = none */
	uint64_t passed_calls, passed_bytes; /* from the slot's countdown */
};
_Static_assert(sizeof(struct live_thread) == 136, "on-disk size");

/* doc: live_owners: of those frees, whose the blocks were. What finds no entry is in `remote` alone. */
enum { LIVE_OWNERS = 16 };
struct live_owners {
	struct {
		uint32_t thread; /* counted_as + 1; 0 = unused */
		uint32_t kind;	 /* enum live_kind */
		uint64_t blocks, bytes;
	} entry[LIVE_OWNERS];
};
_Static_assert(sizeof(struct live_owners) == 6 * LIVE_POOL_UNIT, "pool units");
#endif
