/* SPDX-License-Identifier: Apache-2.0 */
/* See timed_calls.h.
 *
 * Owns: the functions that the hooks forward to without us, and the length of a tick. Any thread, inside a hook. A call is timed only if
 * its hook is recording exactly, and not if it is made by another one of the allocator or by a signal handler: that time is the outer
 * call's. An allocation waits in the slot until its site is known; a free was recorded before it was forwarded.
 *
 * The counter may be disabled by the program (PR_SET_TSC, strict seccomp): reading it is then a signal. `chance` is 0 from before that
 * moment on, and checked before each read. */
#include "recorder/sampling/timed_calls.h"

#include <time.h>

#include "base/checked.h"
#include "recorder/arch/arch.h"
#include "recorder/counters/sites.h"
#include "recorder/hooks/hook.h"
#include "recorder/hooks/operators.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/sampling/mode.h"
#include "recorder/sys.h"

enum { OVERHEAD_TRIES = 32, CLOCK_TRIES = 4 };

static struct next real;
static operator_fn *real_operator[OPERATORS];

static uint64_t chance; /* of a call to be timed, times 2^64; 0 = none: relaxed */
static uint64_t weight;
static uint64_t overhead; /* ticks between two reads of the counter */

/* The length of a tick: the clock is compared with the counter again each time that the time since start has doubled. */
static struct moment {
	uint64_t ticks, ns;
} began;
static uint64_t compare_at;	/* ticks; UINT64_MAX while a thread compares */
static uint64_t tick_fractions; /* of a nanosecond, 2^-32 each; 0 = not known yet: relaxed */

/* Of several readings that which took the least time: a thread may lose its CPU between counter and clock. */
static struct moment moment_now(void)
{
	struct moment best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < CLOCK_TRIES; i++) {
		struct timespec now = { 0 };
		uint64_t ticks = arch_ticks();

		sys_call3(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0);
		uint64_t took = arch_ticks() - ticks;

		if (took < least)
			best = (struct moment){ ticks + took / 2,
						(uint64_t)now.tv_sec * 1000000000u +
							(uint64_t)now.tv_nsec };
		least = MIN(least, took);
	}
	return best;
}

static void compare_clocks(uint64_t ticks)
{
	uint64_t due = __atomic_load_n(&compare_at, __ATOMIC_RELAXED);

	if (ticks < due || !sys_may(SYS_OTHERS) ||
	    !__atomic_compare_exchange_n(&compare_at, &due, UINT64_MAX, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return;
	struct moment now = moment_now();
	uint64_t ns = now.ns - began.ns, passed = MAX(now.ticks - began.ticks, UINT64_C(1));

	for (; ns >> 32 != 0; ns >>= 1)
		passed >>= 1;
	__atomic_store_n(&tick_fractions, (ns << 32) / MAX(passed, UINT64_C(1)), __ATOMIC_RELAXED);
	__atomic_store_n(&compare_at, 2 * now.ticks - began.ticks, __ATOMIC_RELEASE);
}

static void add_variance(uint64_t *sum, unsigned __int128 variance)
{
	uint64_t rest = UINT64_MAX - *sum;

	arch_add(sum, variance < rest ? (uint64_t)variance : rest);
}

/* Counts a timed call for the site of its block. As of a block that was freed at once: it holds no memory. */
static void count(struct slot *slot, uint32_t site, enum live_entry entry, uint64_t ticks)
{
	struct live_site_counters *counters =
		memory_counters(sites_counters_of_timed(slot, site, entry, weight));
	struct live_samples *samples = samples_of_counters(counters);
	uint64_t tick = __atomic_load_n(&tick_fractions, __ATOMIC_RELAXED);
	uint64_t ns = (uint64_t)((unsigned __int128)ticks * tick >> 32);

	if (tick == 0 && !sys_may(SYS_OTHERS))
		timed_calls_stop(); /* how long a tick is will never be known */
	if (samples == NULL || tick == 0)
		return; /* no memory: already counted as such; or another thread compares the clocks for the first time */
	unsigned __int128 of_calls = (unsigned __int128)weight * (weight - 1);

	arch_add(&counters->calls, weight);
	arch_add(&counters->bytes, ns * weight);
	ARCH_ORDER_STORES(); /* readers that load the frees first find the allocation */
	arch_add(&counters->frees, weight);
	arch_add(&counters->freed_bytes, ns * weight);
	arch_add(&samples->count, 1);
	arch_add(&samples->freed_count, 1);
	add_variance(&samples->calls_variance, of_calls << LIVE_VARIANCE_SHIFT);
	add_variance(&samples->frees_variance, of_calls << LIVE_VARIANCE_SHIFT);
	/* Nobody waits for malloc longer than a day: 2^47 ns. */
	uint64_t short_ns = MIN(ns, UINT64_C(1) << 47);
	unsigned __int128 of_ns =
		of_calls * ((unsigned __int128)short_ns * short_ns) >> LIVE_VARIANCE_SHIFT;

	add_variance(&samples->bytes_variance, of_ns);
	add_variance(&samples->freed_variance, of_ns);
}

void timed_calls_allocated(struct slot *slot, const struct live_site_counters *counters)
{
	count(slot, counters->site, LIVE_ENTRY_UNKNOWN, slot->timed.ticks);
}

/* ---- around the forwarded call ---- */

struct timing {
	struct slot *slot; /* NULL: it is not the program's call */
	uint64_t began;	   /* 0 = not timed */
};

static uint64_t ticks_now(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&chance, __ATOMIC_RELAXED) != 0 ? arch_ticks_in_order() : 0;
}

/* A call inside another one has its hook's guard, but not its frame. A call that was left by longjmp has the frame of the next one from
 * the same hook, which is not inside it. */
static ALWAYS_INLINE struct timing timing_begin(uintptr_t frame)
{
	struct thread_state *self = &thread_state;
	uintptr_t guard = self->guard;

	if (!(guard & GUARD_FORWARDING) || self->interval == 1 ||
	    self->interval > MODE_INTERVAL_TIMED || self->token != *fork_token)
		return (struct timing){ 0 };
	struct slot *slot = self->slot;

	if (slot == NULL || (slot->timed.guard == guard && slot->timed.frame != frame))
		return (struct timing){ 0 };
	slot->timed.frame = frame;
	slot->timed.guard = guard;
	self->interval = 0; /* the last timed block was not recorded */
	uint64_t now = __atomic_load_n(&chance, __ATOMIC_RELAXED);

	return (struct timing){ slot, now != 0 && mode_chooses(now) ? ticks_now() : 0 };
}

/* Returns the ticks of a timed call and one more; 0 = it was not. Where a tick is longer than the call, most take none: aarch64's
 * counter may have ticks of 40 ns, which are right on average only if none is added. */
static ALWAYS_INLINE uint64_t timing_end(struct timing timing)
{
	if (timing.slot == NULL)
		return 0;
	uint64_t ended = timing.began != 0 ? ticks_now() : 0;

	timing.slot->timed.guard = 0;
	if (LIKELY(ended == 0))
		return 0;
	compare_clocks(ended);
	/* Saturating: the counters of two CPUs may differ. */
	return saturating_sub(saturating_sub(ended, timing.began), overhead) + 1;
}

static ALWAYS_INLINE void *timed_new(struct timing timing, void *block)
{
	uint64_t ticks = timing_end(timing);

	if (UNLIKELY(ticks != 0) && block != NULL) {
		timing.slot->timed.ticks = ticks - 1;
		thread_state.interval = MODE_INTERVAL_TIMED; /* examine it when it is recorded */
	}
	return block;
}

static ALWAYS_INLINE void timed_free(struct timing timing, const void *block)
{
	uint64_t ticks = timing_end(timing);

	if (UNLIKELY(ticks != 0) && timing.slot->timed.freed == block) {
		uintptr_t guard = thread_state.guard;

		hook_guard(guard & ~(uintptr_t)GUARD_FORWARDING);
		count(timing.slot, timing.slot->timed.freed_site, LIVE_ENTRY_FREE, ticks - 1);
		hook_guard(guard);
	}
}

#define BEGIN() timing_begin((uintptr_t)HOOK_FRAME())

static void *timed_malloc(size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.malloc(size));
}

static void *timed_calloc(size_t count, size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.calloc(count, size));
}

static void *timed_realloc(void *block, size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.realloc(block, size));
}

static int timed_posix_memalign(void **ret, size_t alignment, size_t size)
{
	struct timing timing = BEGIN();
	int status = real.posix_memalign(ret, alignment, size);

	timed_new(timing, status == 0 ? *ret : NULL);
	return status;
}

static void *timed_aligned_alloc(size_t alignment, size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.aligned_alloc(alignment, size));
}

static void *timed_memalign(size_t alignment, size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.memalign(alignment, size));
}

static void *timed_valloc(size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.valloc(size));
}

static void *timed_pvalloc(size_t size)
{
	struct timing timing = BEGIN();

	return timed_new(timing, real.pvalloc(size));
}

static void timed_plain_free(void *block)
{
	struct timing timing = BEGIN();

	real.free(block);
	timed_free(timing, block);
}

static void timed_free_sized(void *block, size_t size)
{
	struct timing timing = BEGIN();

	real.free_sized(block, size);
	timed_free(timing, block);
}

static void timed_free_aligned_sized(void *block, size_t alignment, size_t size)
{
	struct timing timing = BEGIN();

	real.free_aligned_sized(block, alignment, size);
	timed_free(timing, block);
}

/* Operators of the allocator itself, as jemalloc and tcmalloc have them; those of libstdc++ call malloc. */
#define TIMED_NEW(number, symbol)                                                                  \
	static void *timed_operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                \
	{                                                                                          \
		struct timing timing = BEGIN();                                                    \
                                                                                                   \
		return timed_new(timing, real_operator[number](a, b, c));                          \
	}
#define TIMED_DELETE(number, symbol)                                                               \
	static void *timed_operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                \
	{                                                                                          \
		struct timing timing = BEGIN();                                                    \
                                                                                                   \
		real_operator[number](a, b, c);                                                    \
		timed_free(timing, (const void *)a);                                               \
		return NULL;                                                                       \
	}
NEW_OPERATORS(TIMED_NEW)
DELETE_OPERATORS(TIMED_DELETE)

/* ---- start ---- */

static void replace(void)
{
	static operator_fn *const timed_operator[OPERATORS] = {
#define TIMED(number, symbol) timed_operator_##number,
		NEW_OPERATORS(TIMED) DELETE_OPERATORS(TIMED)
#undef TIMED
	};

	real = next;
	next.malloc = timed_malloc;
	next.free = timed_plain_free;
	next.calloc = timed_calloc;
	next.realloc = timed_realloc;
	next.posix_memalign = timed_posix_memalign;
	next.aligned_alloc = timed_aligned_alloc;
	next.memalign = timed_memalign;
	next.valloc = timed_valloc;
	next.pvalloc = timed_pvalloc;
	if (next.free_sized != NULL)
		next.free_sized = timed_free_sized;
	if (next.free_aligned_sized != NULL)
		next.free_aligned_sized = timed_free_aligned_sized;
	for (int i = 0; i < OPERATORS; i++) {
		real_operator[i] = next_operator[i];
		if (next_operator[i] != NULL && operator_of_allocator[i])
			next_operator[i] = timed_operator[i];
	}
}

static uint64_t measure_overhead(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < OVERHEAD_TRIES; i++) {
		uint64_t before = arch_ticks_in_order(), took = arch_ticks_in_order() - before;

		least = MIN(least, took);
	}
	return least;
}

void timed_calls_start(uint64_t one_in)
{
	if (one_in == 0)
		return;
	if (!counter_is_readable()) {
		chance = 0;
		health_add(HEALTH_timing_stopped);
		return;
	}
	weight = one_in;
	overhead = measure_overhead();
	began = moment_now();
	tick_fractions = 0;
	compare_at = 0;
	chance = UINT64_MAX / one_in;
	if (real.malloc == NULL)
		replace();
}

/* A child of fork looks again when it starts recording. The counters of one that does not record are those of its parent, or gone. */
void timed_calls_stop(void)
{
	if (hook_in_new_child())
		return;
	if (__atomic_exchange_n(&chance, 0, __ATOMIC_SEQ_CST) != 0 && memory.head != NULL)
		health_add(HEALTH_timing_stopped);
}
