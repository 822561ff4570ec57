/* SPDX-License-Identifier: Apache-2.0 */
/* Readable stack ranges: see readable_stack.h. Pages are probed by a system call that touches nothing. Each page of a thread's own stack
 * is probed once, and each page of a coroutine's stack again after memory there was freed. If the recorder may not notice a free, it
 * probes a coroutine's stack for each walk.
 *
 * Owns the slots' stack_ranges; each is used by its own thread only. The range in use is moved to the front. */
#include "recorder/unwind/readable_stack.h"

#include <sys/resource.h>

#include "recorder/hooks/linked_in.h"
#include "recorder/libc/libc.h"
#include "recorder/sampling/sampler.h"
#include "recorder/sys.h"
#include "recorder/unwind/modules.h"

enum {
	PROBES_OWN = 2048, /* pages between a thread's stack pointer and its control block */
	PROBES_STEP = 256, /* pages that a frame may be away from the known ones */
	STALE = 0,	   /* not a generation: the range is probed for each walk */
};

PROCESS_STATE uint32_t stack_generation = 1;
bool stack_any_coroutine;
static PROCESS_STATE uintptr_t main_low, main_high;

void stack_start(void)
{
	const uint64_t most = 1ull << 30;
	struct rlimit limit = { .rlim_cur = 8 << 20 };

	if (main_high != 0)
		return; /* forked child: it has its parent's stack, whatever the limit is now */
	sys_call6(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit, 0, 0);
	main_high = ((uintptr_t)libc_argument_count() + ARCH_PAGE) & ~(uintptr_t)(ARCH_PAGE - 1);
	main_low = main_high - MIN((uint64_t)limit.rlim_cur, most);
}

void stack_forget(struct slot *slot)
{
	uint32_t stamp = slot->ranges->stamp;

	*slot->ranges = (struct stack_ranges){ .stamp = stamp + 1 };
}

/* The last unmapped ranges; entry n % UNMAPPED is range n. Relaxed: a
 * coroutine's stack is not freed by another thread while it runs. */
enum { UNMAPPED = 64 };
static struct {
	uintptr_t start, end;
} unmapped[UNMAPPED];

NOINLINE void stack_range_unmapped(uintptr_t start, uint64_t bytes)
{
	uint32_t n = __atomic_fetch_add(&stack_generation, 1, __ATOMIC_RELAXED);

	if (UNLIKELY(n + 1 == STALE))
		n = __atomic_fetch_add(&stack_generation, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&unmapped[n % UNMAPPED].start, start, __ATOMIC_RELAXED);
	__atomic_store_n(&unmapped[n % UNMAPPED].end, start + bytes, __ATOMIC_RELAXED);
}

/* True if stack_memory_unmapped is called before any stack is freed: every free looks up its block, and no allocator in the executable
 * calls us after the fact. */
static bool notices_frees(void)
{
	return !sample_is_filtering() && modules_we_are_first() && linked_in_name[0] == 0;
}

/* True if no part of a range was unmapped since it was last probed. */
static bool still_there(struct stack_range *range)
{
	uint32_t now = __atomic_load_n(&stack_generation, __ATOMIC_RELAXED);

	if (range->own || range->generation == now)
		return range->high != 0;
	if (range->generation == STALE || now - range->generation > UNMAPPED)
		return false;
	for (uint32_t n = range->generation; n != now; n++) {
		if (__atomic_load_n(&unmapped[n % UNMAPPED].start, __ATOMIC_RELAXED) <
			    range->high &&
		    __atomic_load_n(&unmapped[n % UNMAPPED].end, __ATOMIC_RELAXED) > range->low)
			return false;
	}
	range->generation = now;
	return range->high != 0;
}

static uintptr_t page_of(uintptr_t address)
{
	return address & ~(uintptr_t)(ARCH_PAGE - 1);
}

/* Returns the end of the run of readable pages that starts at `from`, at most `to`. */
static uintptr_t readable_until(uintptr_t from, uintptr_t to)
{
	while (from < to && sys_readable(from))
		from += ARCH_PAGE;
	return from;
}

static void fill(struct slot *slot, struct stack_range *range, uintptr_t address)
{
	uintptr_t thread_block = libc_thread_block(), page = page_of(address);

	*range = (struct stack_range){
		.low = page,
		.high = page + ARCH_PAGE,
		.generation = notices_frees() ? __atomic_load_n(&stack_generation, __ATOMIC_RELAXED)
					      : STALE,
		.stamp = ++slot->ranges->stamp,
	};
	if (address >= main_low && address < main_high) {
		*range = (struct stack_range){ main_low, main_high, 0, range->stamp, true };
	} else if (thread_block > address &&
		   thread_block - address < (uintptr_t)PROBES_OWN * ARCH_PAGE) {
		range->high = readable_until(range->high, page_of(thread_block));
		range->own = range->high >= page_of(thread_block);
	}
	if (!range->own)
		__atomic_store_n(&stack_any_coroutine, true, __ATOMIC_RELAXED);
}

COLD struct stack_range *stack_range_find(struct slot *slot, uintptr_t address)
{
	struct stack_ranges *ranges = slot->ranges;
	struct stack_range found;
	unsigned at = 0;

	for (; at < STACK_RANGES; at++) {
		struct stack_range *range = &ranges->range[at];

		if (!still_there(range))
			continue;
		if (address >= range->low && address < range->high)
			break;
		/* The stack has grown: probe the pages between here and the known range. */
		if (address < range->low &&
		    range->low - address < (uintptr_t)PROBES_STEP * ARCH_PAGE &&
		    readable_until(page_of(address), range->low) >= range->low) {
			range->low = page_of(address);
			break;
		}
	}
	if (at == STACK_RANGES) {
		at = STACK_RANGES - 1;
		if (ranges->range[at].own) /* keep the thread's own stack, evict another */
			at--;
		fill(slot, &ranges->range[at], address);
	}
	found = ranges->range[at];
	for (; at > 0; at--)
		ranges->range[at] = ranges->range[at - 1];
	ranges->range[0] = found;
	return &ranges->range[0];
}

COLD bool stack_range_extend(struct stack_range *range, uintptr_t address)
{
	uintptr_t end = page_of(address + sizeof(uintptr_t) - 1) + ARCH_PAGE;

	if (range->high == 0 || address < range->low ||
	    end - range->high > (uintptr_t)PROBES_STEP * ARCH_PAGE)
		return false;
	if (range->own && range->high == main_high)
		return false; /* there is nothing to read above the main stack */
	range->high = readable_until(range->high, end);
	return address + sizeof(uintptr_t) <= range->high;
}

COLD bool stack_is_same(struct slot *slot, uintptr_t deeper, uintptr_t at)
{
	struct stack_range *range = stack_range_of(slot, at);

	if (!range->own || deeper >= at)
		return false;
	return deeper >= range->low || (range->low - deeper < (uintptr_t)PROBES_STEP * ARCH_PAGE &&
					readable_until(page_of(deeper), range->low) >= range->low);
}
