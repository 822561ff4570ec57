/* SPDX-License-Identifier: Apache-2.0 */
/* The dial: exact, by tags without stacks, sampled, dormant; turned at any time, from outside by a word in the control page,
 * or by the program itself. Who turns it last is followed.
 *
 * A hook that allocates first asks the thread's countdown. In the exact mode nothing is left of it. When sampling it is the
 * distance to the next sample, and dormant threads look at the dial again after a MiB; so a thread learns of a turn when it next
 * comes here.
 *
 * A block that is not recorded is never looked for again, and one that is ends under the weight it began with, whatever the
 * dial says by then. */
#ifndef RECORDER_SAMPLING_DIAL_H
#define RECORDER_SAMPLING_DIAL_H

#include "recorder/sampling/countdown.h"
#include "recorder/order.h"
#include "recorder/sampling/sample.h"
#include "recorder/slot.h"

/* LIVE_MODE_EXACT once frees look for every block, else no mode at all. */
extern HIDDEN uint32_t dial_exact;
/* What the dial says: the control page's word, or the program's own. */
extern HIDDEN const uint32_t *dial_mode;
/* There were calls that were not recorded: a free of an unknown block tells nothing. */
extern HIDDEN bool dial_was_turned;

static ALWAYS_INLINE uint32_t dial_now(void)
{
	return __atomic_load_n(dial_mode, __ATOMIC_RELAXED);
}

/* Whether a block may have to be recorded otherwise than exactly. */
static ALWAYS_INLINE bool dial_is_turned(void)
{
	return UNLIKELY(dial_now() != ORDER_LOAD(dial_exact) || thread_state.interval != 0);
}

/* Whether the calling thread's blocks are samples, or would be. */
static inline bool dial_is_sampling(void)
{
	return thread_state.interval != 0 && !thread_state.stopped;
}

/* A process begins, or a fork's child. */
void dial_start(void);

/* What becomes of a new block of `size` bytes that was not let pass. Sets up what comes after it. Returns the interval that
 * it is a sample of, or one of these. Inside a hook. */
enum { DIAL_NOT = 0, DIAL_EXACTLY = 1, DIAL_WITHOUT_STACK = 2 };
uint64_t dial_judge(uint64_t size);

/* How many blocks a sample of that weight stands for, by the thread's random numbers. */
uint32_t dial_round(uint64_t weight);

/* What becomes of an anonymous mapping: DIAL_NOT, DIAL_EXACTLY or DIAL_WITHOUT_STACK. */
uint64_t dial_judge_map(void);

/* The program turns it; DIAL_FOLLOW: back to what whoever records says. Other threads learn of it when they next look. Inside
 * a hook, as are those below. */
enum { DIAL_FOLLOW = 255 };
void dial_turn(uint32_t mode);

/* hg_stop and hg_start, of the whole process or of the calling thread. */
void dial_stop(bool of_thread);
void dial_go_on(bool of_thread);

/* Stacks only of blocks of [least, most] bytes; the others are counted without one. */
void dial_limit_stacks(uint64_t least, uint64_t most);
#endif
