/* SPDX-License-Identifier: Apache-2.0 */
/* The recording mode: exact, tags without stacks, sampled, dormant; changed at any time, from outside by a word in the control
 * page, or by the program itself. The last change wins.
 *
 * An allocation hook first checks the thread's countdown. In exact mode it is always empty. When sampling it is the distance to
 * the next sample, and dormant threads reread the mode after a MiB; so a thread notices a change the next time its countdown ends.
 *
 * An unrecorded block is never looked up again, and a recorded one ends with the weight it started with, whatever the mode is by
 * then. */
#ifndef RECORDER_SAMPLING_MODE_H
#define RECORDER_SAMPLING_MODE_H

#include "recorder/sampling/countdown.h"
#include "recorder/order.h"
#include "recorder/sampling/sampler.h"
#include "recorder/slot.h"

/* LIVE_MODE_EXACT once every free looks up its block, else a value that matches no mode. */
extern HIDDEN uint32_t mode_exact;
/* The current mode, in the control page. */
extern HIDDEN const uint32_t *mode_word;

static ALWAYS_INLINE uint32_t mode_now(void)
{
	return __atomic_load_n(mode_word, __ATOMIC_RELAXED);
}

/* False: a block may have to be recorded in another way than exactly. */
static ALWAYS_INLINE bool mode_is_exact(void)
{
	return !UNLIKELY(mode_now() != ORDER_LOAD(mode_exact) || thread_state.interval != 0);
}

/* Some calls were not recorded: a free of an unknown block is not an error. */
static inline bool mode_misses_blocks(void)
{
	return __atomic_load_n(&memory.head->compatible, __ATOMIC_RELAXED) & LIVE_MISSES_BLOCKS;
}

/* True if the calling thread is sampling. */
static inline bool mode_is_sampling(void)
{
	return thread_state.interval != 0 && !thread_state.stopped;
}

/* Call at process start and in a forked child. */
void mode_start(void);

/* Resets the sampling state of the calling thread, which reads the mode at its next allocation. */
void mode_reread(void);

/* Decides about a new block of `size` bytes that the countdown did not skip, and sets up the next countdown. Returns the sampling
 * interval if the block is a sample, or one of these. counts_in: the slot that counts the call if the thread samples; NULL: none,
 * it is not a heap call. Inside a hook. */
enum { MODE_SKIP = 0, MODE_EXACTLY = 1, MODE_WITHOUT_STACK = 2 };
uint64_t mode_decide(uint64_t size, struct slot *counts_in);

/* thread_state.interval between a call that was timed and its record: the call is examined, and then recorded as in exact mode. 1 is that
 * of a stopped thread. */
enum { MODE_INTERVAL_TIMED = 2 };

/* True with a probability of chance / 2^64. */
bool mode_chooses(uint64_t chance);

/* Rounds a sample's weight to a whole number of blocks, using the thread's random numbers. */
uint32_t mode_round_weight(uint64_t weight);

/* Decides about an anonymous mapping: MODE_SKIP, MODE_EXACTLY or MODE_WITHOUT_STACK. */
uint64_t mode_decide_map(void);

/* Sets the mode on behalf of the program; MODE_FOLLOW: returns to the collector's setting. Other threads see it when they next
 * read the mode. Inside a hook, as are those below. */
enum { MODE_FOLLOW = 255 };
void mode_set(uint32_t mode);

/* hg_stop and hg_start, for the whole process or the calling thread. */
void mode_stop(bool of_thread);
void mode_resume(bool of_thread);

/* Records stacks only for blocks of [least, most] bytes; others are counted without one. */
void mode_limit_stacks(uint64_t least, uint64_t most);
#endif
