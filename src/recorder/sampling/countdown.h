/* SPDX-License-Identifier: Apache-2.0 */
/* The countdown of a thread: how many bytes it may still allocate before a call is examined.
 *
 * Every allocation hook starts here. A call for less than the rest of the countdown is counted, forwarded and not recorded: this
 * is all that a sampled program pays for most of its calls. While a thread samples, its countdown is in its slot of the profile,
 * so that its calls and bytes are known exactly however the process ends. Otherwise the countdown is thread-local and nobody
 * reads it.
 *
 * A thread reaches its countdown through a word that is wiped on fork. In a child the word is 0, which leads to an empty
 * countdown: so the first call of a child is examined and never counts in its parent's profile, which may not even be mapped
 * there. All words and countdowns are offsets from countdown_base, because 0 must be a valid one: new threads start with it. */
#ifndef RECORDER_SAMPLING_COUNTDOWN_H
#define RECORDER_SAMPLING_COUNTDOWN_H

#include <stdbool.h>

#include "recorder/arch/arch.h"
#include "recorder/order.h"
#include "recorder/slot.h"

extern HIDDEN char *countdown_base;

static ALWAYS_INLINE struct live_countdown *countdown_now(void)
{
	char *base = countdown_base;

	return (struct live_countdown *)(void *)(base +
						 *(uintptr_t *)(void *)(base +
									thread_state.countdown));
}

static ALWAYS_INLINE bool countdown_would_pass(uint64_t size)
{
	return UNLIKELY(size < countdown_now()->left);
}

/* Counts a call and lets it pass, if it is smaller than the rest of the countdown. If a signal handler has used up the rest in
 * between, the subtraction is undone and the call is examined. */
static ALWAYS_INLINE bool countdown_passes(uint64_t size)
{
	struct live_countdown *now = countdown_now();

	if (!UNLIKELY(size < ORDER_LOAD(now->left)))
		return false;
	if (UNLIKELY(arch_subtract(&now->left, size))) {
		arch_subtract(&now->left, -size);
		return false;
	}
#ifndef __SANITIZE_THREAD__
	now->calls++;
#else
	__atomic_store_n(&now->calls, now->calls + 1, __ATOMIC_RELAXED);
#endif
	return true;
}

/* The words wiped on fork start with an empty countdown, so that offset 0 leads to it. */
enum { COUNTDOWN_WORDS = 8, COUNTDOWN_BYTES = (COUNTDOWN_WORDS + SLOT_LIMIT) * sizeof(uint64_t) };

/* Allocates the words wiped on fork: one per slot, and countdown_token, a different number in each generation of children. False:
 * no memory. A child calls it again. */
bool countdown_start(void);
uint64_t *countdown_token(void);

/* Makes every call be examined. */
static inline void countdown_none(void)
{
	thread_state.countdown = 0;
}

/* Uses a thread-local countdown, for calls that are not counted. */
void countdown_own(uint64_t left);

/* Uses the slot's countdown, with this much left. */
void countdown_shared(struct slot *slot, uint64_t left);

/* Lets a pool block pass, without counting a heap call. */
bool countdown_skips(struct slot *slot, uint64_t size);

/* Adds to the slot's calls and bytes, modulo 2^64. */
void countdown_add(struct slot *slot, uint64_t calls, uint64_t bytes);
#endif
