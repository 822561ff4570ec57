/* SPDX-License-Identifier: Apache-2.0 */
/* The mode: exact, by tags without stacks, sampled, dormant; turned at any time, from outside by a word in the control page,
 * or by the program itself. Who turns it last is followed.
 *
 * A hook that allocates first checks the thread's countdown. In the exact mode nothing is left of it. When sampling it is the
 * distance to the next sample, and dormant threads read the mode again after a MiB; so a thread learns of a turn when it next
 * comes here.
 *
 * A block that is not recorded is never looked up again, and one that is ends under the weight it began with, whatever the
 * mode says by then. */
#ifndef RECORDER_SAMPLING_MODE_H
#define RECORDER_SAMPLING_MODE_H

#include "recorder/sampling/countdown.h"
#include "recorder/order.h"
#include "recorder/sampling/sampler.h"
#include "recorder/slot.h"

/* LIVE_MODE_EXACT once frees look every block up, else no mode at all. */
extern HIDDEN uint32_t mode_exact;
/* What the mode says: the control page's word, or the program's own. */
extern HIDDEN const uint32_t *mode_word;
/* There were calls that were not recorded: a free of an unknown block means nothing. */
extern HIDDEN bool mode_was_changed;

static ALWAYS_INLINE uint32_t mode_now(void)
{
	return __atomic_load_n(mode_word, __ATOMIC_RELAXED);
}

/* False: a block may have to be recorded otherwise than exactly. */
static ALWAYS_INLINE bool mode_is_exact(void)
{
	return !UNLIKELY(mode_now() != ORDER_LOAD(mode_exact) || thread_state.interval != 0);
}

/* Whether the calling thread's blocks are samples, or would be. */
static inline bool mode_is_sampling(void)
{
	return thread_state.interval != 0 && !thread_state.stopped;
}

/* A process begins, or a fork's child. */
void mode_start(void);

/* What becomes of a new block of `size` bytes that was not let pass. Sets up what comes after it. Returns the interval that
 * it is a sample of, or one of these. counts_in: where the call is counted if the thread samples; NULL: nowhere, it is none of the
 * heap's. Inside a hook. */
enum { MODE_SKIP = 0, MODE_EXACTLY = 1, MODE_WITHOUT_STACK = 2 };
uint64_t mode_decide(uint64_t size, struct slot *counts_in);

/* How many blocks a sample of that weight stands for, by the thread's random numbers. */
uint32_t mode_round_weight(uint64_t weight);

/* What becomes of an anonymous mapping: MODE_SKIP, MODE_EXACTLY or MODE_WITHOUT_STACK. */
uint64_t mode_decide_map(void);

/* The program turns it; MODE_FOLLOW: back to what whoever records says. Other threads see it when they next read it. Inside
 * a hook, as are those below. */
enum { MODE_FOLLOW = 255 };
void mode_set(uint32_t mode);

/* hg_stop and hg_start, of the whole process or of the calling thread. */
void mode_stop(bool of_thread);
void mode_resume(bool of_thread);

/* Stacks only of blocks of [least, most] bytes; the others are counted without one. */
void mode_limit_stacks(uint64_t least, uint64_t most);
#endif
