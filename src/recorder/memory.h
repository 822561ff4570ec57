/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder's memory: the mapped live profile, its regions and the budget.
 *
 * All recorder memory is part of one mapping, reserved without access at start-up and opened piece by piece, without holding a
 * lock. */
#ifndef RECORDER_MEMORY_H
#define RECORDER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/live/live.h"
#include "recorder/sys.h"

/* Section for most variables that a forked child resets, and small ones used with them: a child copies each page it writes to. */
#define PROCESS_STATE __attribute__((section("heapgauge_state")))

/* Addresses inside the mapping, constant while it is in use. Written at start-up and after fork, otherwise read-only. */
struct memory {
	struct live_header *head;
	struct live_control *control;
	char *region[LIVE_REGIONS];
	uint64_t total_bytes;
	/* Size of each region when it was mapped, and after memory_shrink: the program may have reused the memory in between. */
	uint64_t reserved_bytes[LIVE_REGIONS], kept_bytes[LIVE_REGIONS];
	uint32_t opening[LIVE_REGIONS]; /* threads that are opening a piece */
	uint32_t shrinking;		/* 1: a thread is in memory_shrink */
};
extern HIDDEN struct memory memory;

/* True if the profile is a file, whose open pages are all populated. */
static inline bool memory_is_file(void)
{
	return memory.head->own.kept == LIVE_KEPT_FILE;
}

/* Rounds up to whole pages. */
static inline uint64_t memory_pages(uint64_t bytes)
{
	return (bytes + sys_page() - 1) & ~(uint64_t)(sys_page() - 1);
}

/* Adopts a mapping of head->total_bytes whose header pages are open. */
void memory_use(struct live_header *head, struct live_control *control);

/* Unmaps everything that memory_shrink has not released, and the control page. */
void memory_release(void);

/* The program needs what its limit of address space allows: the profile gets this part of it. */
enum { MEMORY_LIMIT_PART = 16 };

/* Call before the program limits its address space: releases reserved memory that is not open, except its part of the limit. */
void memory_shrink(uint64_t limit_bytes);

/* Call before the program gives up system calls: opens some memory ahead, the last that can be opened. */
void memory_open_ahead(void);

/* Makes [0, bytes) of the region writable. False if the budget, the region or the kernel does not allow it; then only a health
 * counter has changed. Any thread. */
bool memory_open(enum live_region region, uint64_t bytes);

/* memory_open without the reserve, the last eighth of the budget. For new stacks: without memory they are counted as [other], but
 * [other], live blocks and new threads must still find memory. */
bool memory_open_above_reserve(enum live_region region, uint64_t bytes);

/* With record --core: makes opened memory part of core files. The rest of the mapping never is: the kernel would allocate it while
 * it writes the core file. */
void memory_dump(void *at, uint64_t bytes);

/* In a forked child, for its parent's memory: makes pages readable that the parent has opened since. The pages are shared but their
 * protection is not: without this, entries that the parent counts as used may be unreadable here. */
bool memory_open_of_parent(enum live_region region, uint64_t bytes);

/* A copy of all open memory, for a forked child that continues a hook of its parent: taken before the fork, mapped over the
 * parent's profile in the child, and dropped in both. at NULL: no memory for it, and the child continues in the parent's
 * profile. */
struct memory_copy {
	char *at;
	uint64_t bytes, opened[LIVE_REGIONS];
};
struct memory_copy memory_copy_take(void);
void memory_copy_use(const struct memory_copy *copy);
void memory_copy_drop(const struct memory_copy *copy);

/* Appends `count` entries of `entry_bytes` to a region: returns the first index, or UINT64_MAX. The entries are zero and count as
 * used from now on: a reader may see them before they are filled in. Any thread. */
uint64_t memory_append(enum live_region region, uint64_t count, uint64_t entry_bytes);

/* Allocates private memory of the recorder: zeroed, 64-byte aligned, never freed. NULL: none left. Any thread. */
void *memory_scratch(uint64_t bytes);
void *memory_scratch_above_reserve(uint64_t bytes);

/* Number of entries of a region, and its open bytes. Everything they cover is readable. */
static ALWAYS_INLINE uint64_t memory_used(enum live_region region)
{
	return __atomic_load_n(&memory.head->used[region], __ATOMIC_ACQUIRE);
}
static ALWAYS_INLINE uint64_t memory_opened(enum live_region region)
{
	return __atomic_load_n(&memory.head->opened[region], __ATOMIC_ACQUIRE);
}

static inline void health_add(enum health_counter counter)
{
	__atomic_fetch_add(&memory.head->health[counter], 1, __ATOMIC_RELAXED);
}

static ALWAYS_INLINE struct live_site_counters *memory_counters(uint32_t id)
{
	return (struct live_site_counters *)(void *)memory.region[LIVE_SITE_COUNTERS] + id;
}
static ALWAYS_INLINE struct live_site *memory_site(uint32_t id)
{
	return (struct live_site *)(void *)memory.region[LIVE_SITES] + id;
}
static ALWAYS_INLINE struct live_node *memory_node(uint32_t id)
{
	return (struct live_node *)(void *)memory.region[LIVE_NODES] + id;
}
static ALWAYS_INLINE uint64_t *memory_frame(uint32_t id)
{
	return (uint64_t *)(void *)memory.region[LIVE_FRAMES] + id;
}
static ALWAYS_INLINE struct live_module *memory_module(uint32_t id)
{
	return (struct live_module *)(void *)memory.region[LIVE_MODULES] + id;
}
/* The address of a frame; 0: none, it is an interpreter frame. */
static inline uintptr_t memory_frame_address(uint32_t id)
{
	uint64_t frame = *memory_frame(id);
	uint32_t module = live_frame_module(frame);

	if (module != 0 && memory_module(module)->kind != LIVE_MODULE_ELF)
		return 0;
	return live_frame_offset(frame) + (module != 0 ? memory_module(module)->bias : 0);
}
static ALWAYS_INLINE struct live_slot *memory_slot(uint32_t id)
{
	return (struct live_slot *)(void *)memory.region[LIVE_SLOTS] + id;
}

/* Live bytes of any slot; its thread may be counting. */
static inline int64_t memory_live_of(const struct live_slot *slot)
{
	return (int64_t)(__atomic_load_n(&slot->bytes, __ATOMIC_RELAXED) -
			 __atomic_load_n(&slot->freed_bytes, __ATOMIC_RELAXED));
}
static ALWAYS_INLINE struct live_thread *memory_thread(uint32_t id)
{
	return (struct live_thread *)(void *)memory.region[LIVE_THREADS] + id;
}
static ALWAYS_INLINE struct live_tag *memory_tag(uint32_t id)
{
	return (struct live_tag *)(void *)memory.region[LIVE_TAGS] + id;
}
static ALWAYS_INLINE struct live_visits *memory_visits(uint32_t id)
{
	return (struct live_visits *)(void *)memory.region[LIVE_VISITS] + id;
}
static ALWAYS_INLINE struct live_code *memory_code(uint32_t id)
{
	return (struct live_code *)(void *)memory.region[LIVE_CODES] + id;
}
static ALWAYS_INLINE void *memory_pool(uint32_t unit)
{
	return memory.region[LIVE_POOL] + (uint64_t)unit * LIVE_POOL_UNIT;
}
static ALWAYS_INLINE uint64_t clock_ms(void)
{
	return __atomic_load_n(&memory.control->clock_ms, __ATOMIC_RELAXED);
}

/* Copies from memory of the program that may be unmapped, through the kernel. False: part of it is unreadable. */
bool memory_read_safely(uintptr_t from, void *to, size_t bytes);
#endif
