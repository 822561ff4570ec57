/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: which blocks are recorded when not all are, and the weight of each.
 *
 * A block at least as large as the interval is always recorded, with weight 1. For smaller ones a thread counts down a number of
 * bytes drawn from an exponential distribution whose mean is the interval. The block that takes it below zero is recorded: a block
 * of s bytes with probability p = 1 - exp(-s / interval), whatever came before. Its weight is 1/p, rounded up or down at random so
 * that the mean is right, and stored with the block for its free. So every counter is an unbiased estimate. The rounding does not
 * use the block's address: a buffer that is reallocated at the same address would always be rounded the same way.
 *
 * Integers only: the recorder uses no floating point. */
#ifndef RECORDER_SAMPLING_SAMPLER_H
#define RECORDER_SAMPLING_SAMPLER_H

#include <stdbool.h>

#include "recorder/memory.h"
#include "recorder/order.h"

enum {
	SAMPLE_INTERVAL_MIN = 256,
	SAMPLE_INTERVAL_MAX = 16 << 20,
	SAMPLE_INTERVAL_DEFAULT = 512 << 10, /* if not specified */
};

/* A random number. state: the thread's, never 0, as for those below. */
uint64_t sample_random(uint64_t *state);

/* Draws the number of bytes until the next sample. */
int64_t sample_draw(uint64_t *random, uint64_t interval);

/* 1/p with 32 fractional bits; 1 if the interval is 0 (not a sample). */
uint64_t sample_weight(uint64_t size, uint64_t interval);

/* Rounds a weight to a whole number of blocks, up or down at random so that the mean is right. */
uint32_t sample_round(uint64_t *random, uint64_t weight);

/* A filter, so that frees of unrecorded blocks need no lookup: a byte per hash of the address counts the recorded blocks there and
 * saturates at 255. While every block is recorded (sample_mask = 0), all addresses map to byte 0, which is 255: so every free
 * needs one test, not two. */
enum { SAMPLE_BUCKETS = 1 << 14 };
extern HIDDEN uint8_t sample_filter[SAMPLE_BUCKETS];
extern HIDDEN uint32_t sample_mask;

static ALWAYS_INLINE bool sample_is_filtering(void)
{
	return ORDER_LOAD(sample_mask) != 0;
}

static ALWAYS_INLINE uint8_t *sample_bucket(const void *block)
{
	return &sample_filter[(uint32_t)((uintptr_t)block >> 4) & ORDER_LOAD(sample_mask)];
}

/* True if a block is certainly not recorded. */
static ALWAYS_INLINE bool sample_is_absent(const void *block)
{
	return UNLIKELY(ORDER_LOAD(*sample_bucket(block)) == 0);
}

void sample_remember(const void *block);
void sample_forget(const void *block);
/* Turns the filter off: from now on any block may be recorded. */
void sample_no_filter(void);
/* Call at process start: nothing is recorded yet. */
void sample_start(bool filters);

/* The error estimates of site counters, to which each sample adds; NULL: no memory, or the counters are not of samples. */
struct live_samples *samples_of_counters(struct live_site_counters *counters);
void sample_add_allocation(struct live_samples *samples, uint64_t size, uint64_t weight);
void sample_add_free(struct live_samples *samples, uint64_t size, uint64_t weight);
#endif
