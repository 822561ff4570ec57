/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sample types of heap profiles, as pprof and the stores name them: alloc_objects, alloc_space, inuse_objects, inuse_space;
 * the last two at the selected moment. Any other cost is a fifth type.
 *
 * In a sampled recording each has its variance as an additional type: tools add up the values of a function, and
 * variances are additive, but standard errors are not.
 */
#ifndef EXPORT_SAMPLE_TYPES_H
#define EXPORT_SAMPLE_TYPES_H

#include "export/exporters.h"

struct sample_type {
	const char *name; /* no '-': Pyroscope rejects it */
	const char *unit;
	enum cost_id cost;
	bool is_variance; /* of the cost */
};

enum { SAMPLE_TYPES_MAX = 10 };
struct sample_types {
	struct sample_type at[SAMPLE_TYPES_MAX];
	size_t count;
	size_t selected; /* index of the type of the selected cost */
};

struct sample_types sample_types_of(const struct export_input *input);
int64_t sample_value(const struct export_input *input, const struct sample_type *type,
		     const struct measures *measures);

/* The period of these types is in bytes of "space": 1 if every block was recorded, else the average bytes between samples. */
uint64_t sampling_period(const struct profile *profile);

#endif
