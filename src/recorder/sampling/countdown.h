/* SPDX-License-Identifier: Apache-2.0 */
/* The countdown of a thread: how many bytes it may still allocate before a call is examined.
 *
 * A hook that allocates comes here first. A call for less than what is left is counted, forwarded and forgotten: that is all that
 * a sampled program pays for most of its calls. While a thread samples, its countdown lies in its slot of the profile, so that
 * its calls and bytes are known to the byte however the process ends. Otherwise it is the thread's own and nobody reads it.
 *
 * The way there leads over a word that fork wipes. In a child it is 0, which leads to a countdown of nothing: so the first call
 * of a child is examined, and never counts in its parent's profile, which may not even be mapped there. All words and countdowns
 * are named by their distance from countdown_base, because 0 must be one of them: that is what a new thread begins with. */
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

/* Counts a call and lets it pass, if it is for less than what is left. A signal handler that allocates in between may have
 * taken of it what this call was to have: then that is given back, and the call is examined. */
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

/* The words that fork wipes begin with a countdown of nothing, so that a distance of 0 leads to it. */
enum { COUNTDOWN_WORDS = 8, COUNTDOWN_BYTES = (COUNTDOWN_WORDS + SLOT_LIMIT) * sizeof(uint64_t) };

/* The words that fork wipes, of every slot and one more, which is countdown_token: another number in each generation of children.
 * False: there is no memory for them. Again in a child. */
bool countdown_start(void);
uint64_t *countdown_token(void);

/* Every call is examined. */
static inline void countdown_none(void)
{
	thread_state.countdown = 0;
}

/* The thread's own, for calls that nobody counts. */
void countdown_own(uint64_t left);

/* The slot's, from now on with so much left. */
void countdown_shared(struct slot *slot, uint64_t left);

/* Lets a block of a pool pass, which is no call of the heap's. */
bool countdown_skips(struct slot *slot, uint64_t size);

/* Adds to the slot's, or takes away (modulo 2^64). */
void countdown_add(struct slot *slot, uint64_t calls, uint64_t bytes);
#endif
