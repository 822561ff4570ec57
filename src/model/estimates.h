/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far from the truth the numbers of a sampled recording are: variances of estimates, 0 of what was counted.
 *
 * Calls, bytes, and what is left of both at the end have variances that were added up where the samples were taken. For
 * any other number of a site a rule says what it is a part of: a part has its share of the variance, as if it were made
 * of blocks like the others there. Samples are independent of each other, so variances of sites add up.
 */
#ifndef MODEL_ESTIMATES_H
#define MODEL_ESTIMATES_H

#include "model/profile.h"

enum variance_rule {
	VARIANCE_NONE,	/* no estimate */
	VARIANCE_CALLS, /* some of the blocks that were asked for */
	VARIANCE_BYTES, /* ... of their bytes */
	VARIANCE_FREES,
	VARIANCE_FREED_BYTES,
	VARIANCE_LIVE_BLOCKS, /* just those that are left, and not some of them; the same with the next three */
	VARIANCE_LIVE_BYTES,
	VARIANCE_PEAK_BLOCKS,
	VARIANCE_PEAK_BYTES,
	VARIANCE_WASTE,	     /* something of each block */
	VARIANCE_LIVE_WASTE, /* ... that is left */
	VARIANCE_LIFETIME,   /* of each freed block, and differing much */
};

/* Of `number`, which is one of n's. May be less than 0 for some of a site's threads: what is between them cancels out
 * in their sum, and without its sign it is the variance of what one of them has. */
double estimate_variance(const struct site_numbers *n, enum variance_rule rule, uint64_t number);

/* Adds up calls, bytes, frees, what is live and at the peak, and their variances. */
void estimates_add(struct site_numbers *sum, const struct site_numbers *part);
void reallocs_add(struct realloc_numbers *sum, const struct realloc_numbers *part);

/* What each block of a size, or of a class of sizes, adds to the variance of a count of them; interval 0: nothing. */
double estimate_block_variance(uint64_t size, uint64_t interval);
double estimate_size_variance(struct profile_bar size, uint64_t interval);

/* The variance of the sizes before realloc, which have nothing to do with how likely a call is seen. */
double estimate_old_bytes_variance(const struct site_numbers *n, struct profile_bars sizes);

/* The variance of a mean of n's blocks: their sizes, or how long they lived. */
double estimate_mean_size_variance(const struct site_numbers *n, struct profile_bars sizes);
double estimate_mean_life_variance(const struct site_numbers *n, struct profile_bars lifetimes);

/* Of what each site held at the snapshot, by site id. In the arena; NULL if out of memory. */
struct live_variance {
	double bytes, blocks;
};
struct live_variance *profile_live_variances(const struct profile_process *process, size_t snapshot,
					     struct arena *arena);

/* Of what was live at each snapshot, by snapshot: the sum over its sites on the heap. The same. */
struct live_variance *profile_snapshot_variances(const struct profile_process *process,
						 struct arena *arena);

/* Of the peak of all processes at one moment, or an upper bound of it. */
double profile_peak_variance(const struct profile *profile);

/* By how much the estimate of a process' peak is too high on average, at most. It is the largest of many estimates, and
 * what was freed and asked for again since makes a new one of them. */
uint64_t estimate_peak_bias(const struct site_numbers *sums);

#endif
