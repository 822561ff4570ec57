/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: which blocks are recorded when not all are, and how many each of them stands for.
 *
 * A block at least as large as the interval is recorded always, and stands for itself. For the others a thread counts down a
 * number of bytes, drawn from an exponential distribution with the interval as its mean. The block that brings it below zero
 * is recorded: one of s bytes with probability p = 1 - exp(-s / interval), whatever came before. It stands for 1/p blocks;
 * that is rounded to a whole number, up or down by chance so that the mean is right, and kept with the block for when it is
 * freed. So every counter is an estimate without bias. Not by the block's address: a buffer that is allocated again and again
 * would always be rounded the same way.
 *
 * Integers only: the recorder has no floating point. */
#ifndef RECORDER_SAMPLING_SAMPLER_H
#define RECORDER_SAMPLING_SAMPLER_H

#include <stdbool.h>

#include "recorder/memory.h"
#include "recorder/order.h"

enum {
	SAMPLE_INTERVAL_MIN = 256,
	SAMPLE_INTERVAL_MAX = 16 << 20,
	SAMPLE_INTERVAL_DEFAULT = 512 << 10, /* where nobody says */
};

/* A draw of the bytes until the next sample. random: the thread's, never 0. */
int64_t sample_draw(uint64_t *random, uint64_t interval);

/* 1/p with 32 binary places; 1 if the interval is 0, as that of what is no sample. */
uint64_t sample_weight(uint64_t size, uint64_t interval);

/* How many blocks one of that weight stands for: as many, up or down so that the mean is right. */
uint32_t sample_round(uint64_t *random, uint64_t weight);

/* Frees of blocks that are not recorded need no lookup. One byte for each place that addresses fall on counts the
 * recorded blocks there; 255 stays. While every block is recorded (sample_mask = 0) all fall on the first, which has 255: so there
 * is one question on the way of every free, not two. */
enum { SAMPLE_PLACES = 1 << 14 };
extern HIDDEN uint8_t sample_filter[SAMPLE_PLACES];
extern HIDDEN uint32_t sample_mask;

static ALWAYS_INLINE bool sample_is_filtering(void)
{
	return ORDER_LOAD(sample_mask) != 0;
}

static ALWAYS_INLINE uint8_t *sample_place(const void *block)
{
	return &sample_filter[(uint32_t)((uintptr_t)block >> 4) & ORDER_LOAD(sample_mask)];
}

/* Whether a block is certainly not recorded. */
static ALWAYS_INLINE bool sample_is_absent(const void *block)
{
	return UNLIKELY(ORDER_LOAD(*sample_place(block)) == 0);
}

void sample_remember(const void *block);
void sample_forget(const void *block);
/* From now on any block may be recorded. */
void sample_no_filter(void);
/* A process that begins: nothing is recorded yet. */
void sample_start(bool filters);

/* What a sample adds to the errors of its site counters; NULL: no memory, or they are of no samples. */
struct live_samples *samples_of_counters(struct live_site_counters *counters);
void sample_add_allocation(struct live_samples *samples, uint64_t size, uint64_t weight);
void sample_add_free(struct live_samples *samples, uint64_t size, uint64_t weight);
#endif
