/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uncertainty of a sampled recording: variances of estimates, 0 for exact counts.
 *
 * The recorder accumulates the variances of calls, bytes, and their live parts at the end, as it takes samples. For any
 * other number of a site, a rule names the number that it is a part of: a part gets its share of the variance, as if
 * its blocks were like the others. Samples are independent, so the variances of sites add up.
 */
#ifndef MODEL_ESTIMATES_H
#define MODEL_ESTIMATES_H

#include "model/profile.h"

enum variance_rule {
	VARIANCE_NONE,	/* exact */
	VARIANCE_CALLS, /* a part of the allocated blocks */
	VARIANCE_BYTES, /* a part of their bytes */
	VARIANCE_FREES,
	VARIANCE_FREED_BYTES,
	VARIANCE_LIVE_BLOCKS, /* exactly the live blocks, not a part of them; likewise for the next three */
	VARIANCE_LIVE_BYTES,
	VARIANCE_PEAK_BLOCKS,
	VARIANCE_PEAK_BYTES,
	VARIANCE_WASTE,	     /* a quantity of each block */
	VARIANCE_LIVE_WASTE, /* a quantity of each live block */
	VARIANCE_LIFETIME,   /* a quantity of each freed block, with large variation */
	VARIANCE_TIME,	     /* exactly the time in the allocator */
};

/* The variance of `number`, one of n's numbers. May be negative for a subset of a site's threads: blocks that
 * passed between threads cancel in the sum over all threads, and the absolute value is the variance of one
 * thread's number. */
double estimate_variance(const struct site_numbers *n, enum variance_rule rule, uint64_t number);

/* Whether numbers of the process are estimates, even if it has no sample. */
bool profile_is_sampled(const struct profile_process *process);

/* Whether calls of the allocator were timed in some process: record --time-calls. */
bool profile_is_timed(const struct profile *profile);

/* Adds calls, bytes, frees, live and peak numbers, and their variances. */
void estimates_add(struct site_numbers *sum, const struct site_numbers *part);
void reallocs_add(struct realloc_numbers *sum, const struct realloc_numbers *part);

/* What each block of a size, or of a size class, adds to the variance of their count; 0 for interval 0. */
double estimate_block_variance(uint64_t size, uint64_t interval);
double estimate_size_variance(struct profile_bar size, uint64_t interval);

/* The variance of the sizes before realloc, which do not affect the probability that a call is sampled. */
double estimate_old_bytes_variance(const struct site_numbers *n, struct profile_bars sizes);

/* The variance of a mean over n's blocks: of their size, or of their lifetime. */
double estimate_mean_size_variance(const struct site_numbers *n, struct profile_bars sizes);
double estimate_mean_life_variance(const struct site_numbers *n, struct profile_bars lifetimes);

/* The variance of each site's live numbers at the snapshot, by site id. In the arena; NULL if out of memory. */
struct live_variance {
	double bytes, blocks;
};
struct live_variance *profile_live_variances(const struct profile_process *process, size_t snapshot,
					     struct arena *arena);

/* The variance of all live numbers at each snapshot, by snapshot: the sum over heap sites. In the
 * arena; NULL if out of memory. */
struct live_variance *profile_snapshot_variances(const struct profile_process *process,
						 struct arena *arena);

/* The variance of the joint peak of all processes, or an upper bound of it. */
double profile_peak_variance(const struct profile *profile);

/* An upper bound for the mean bias of the estimated peak of a process. The peak is the largest of many estimates;
 * memory that was freed and allocated again since makes a new one. */
uint64_t estimate_peak_bias(const struct site_numbers *sums);

#endif
