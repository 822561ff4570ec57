/* SPDX-License-Identifier: Apache-2.0 */
/* Which stack memory may be read. A walk follows addresses that the program's own tables yield; where those are wrong
 * (a hand-written coroutine, a broken table), it must stop before it touches unmapped memory.
 *
 * Each slot caches readable ranges. The main thread's stack and the stack that ends at a thread's control block stay
 * valid as long as the thread lives. Others (coroutines) are probed again after memory was freed or unmapped, or for each walk if
 * the recorder may not notice that. */
#ifndef RECORDER_UNWIND_READABLE_STACK_H
#define RECORDER_UNWIND_READABLE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "recorder/slot.h"

struct stack_range {
	uintptr_t low, high; /* readable: [low, high) */
	uint32_t generation; /* of stack_generation when it was probed */
	uint32_t stamp;	     /* changes whenever the entry is refilled */
	bool own;	     /* never expires */
};
enum { STACK_RANGES = 4 };
struct stack_ranges {
	struct stack_range range[STACK_RANGES];
	uint32_t next, stamp;
};

/* How often memory that may have been a coroutine's stack was unmapped. The last such ranges are stored, so that only
 * readable ranges overlapping them are probed again. */
extern HIDDEN uint32_t stack_generation;
extern HIDDEN bool
	stack_any_coroutine; /* some range is neither the main thread's nor a thread's own stack */
void stack_range_unmapped(uintptr_t start, uint64_t bytes);

static inline void stack_memory_unmapped(uintptr_t start, uint64_t bytes)
{
	if (UNLIKELY(stack_any_coroutine))
		stack_range_unmapped(start, bytes);
}

/* Finds the main thread's stack, at start-up. */
void stack_start(void);

/* Call when a thread takes the slot: its stack is unknown. */
void stack_forget(struct slot *slot);

struct stack_range *stack_range_find(struct slot *slot, uintptr_t address);

/* True if nothing was unmapped that may overlap the range. */
static ALWAYS_INLINE bool stack_range_fresh(const struct stack_range *range)
{
	return LIKELY(range->own) ||
	       range->generation == __atomic_load_n(&stack_generation, __ATOMIC_RELAXED);
}

/* Returns the range that contains `address`, on the running stack. */
static ALWAYS_INLINE struct stack_range *stack_range_of(struct slot *slot, uintptr_t address)
{
	struct stack_range *range = &slot->ranges->range[0];

	if (LIKELY(address - range->low < range->high - range->low && stack_range_fresh(range)))
		return range;
	return stack_range_find(slot, address);
}

/* True if two addresses are on the same stack, and it is the main thread's or the running thread's own; `at` is in use. */
bool stack_is_same(struct slot *slot, uintptr_t deeper, uintptr_t at);

/* True if the range can be extended to cover [address, address + 8). */
bool stack_range_extend(struct stack_range *range, uintptr_t address);

static ALWAYS_INLINE bool stack_range_holds(struct stack_range *range, uintptr_t address)
{
	return LIKELY(address >= range->low && address + sizeof(uintptr_t) <= range->high) ||
	       stack_range_extend(range, address);
}
#endif
