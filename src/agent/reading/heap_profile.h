/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process' profile in the shape that stores accept: pprof, allocations as the difference from the last one, and never more
 * samples or bytes than the limit: call paths with the least bytes are folded into their callers, so that totals stay right.
 */
#ifndef AGENT_READING_HEAP_PROFILE_H
#define AGENT_READING_HEAP_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "export/exporters.h"
#include "model/frames/names.h"
#include "model/profile.h"
#include "util/buffer.h"
#include "util/error.h"

/* The cumulative numbers of each site when its last profile was made. Encoded: site id, calls, bytes; each a u64. */
struct heap_baseline {
	bool known;	     /* else `encoded` is empty */
	bool starts_at_zero; /* not known, because the process has begun since: everything is new */
	struct span encoded;
};

struct heap_profile_options {
	bool deltas; /* allocations since the baseline; else since the start of the process */
	struct heap_baseline baseline;
	enum cost_id first;	       /* what tools show first: COST_LIVE or COST_TOTAL */
	size_t max_samples, max_bytes; /* uncompressed */
	struct export_interval interval;
	struct names_options names;
};

struct heap_profile {
	struct buffer pprof;	/* gzipped */
	struct buffer baseline; /* for the next one */
	uint64_t samples, folded_stacks;
	uint64_t folded_bytes; /* live bytes and new bytes of the folded stacks */
};

/* -1 with the error set. The caller releases ret in either case. */
int heap_profile_make(const struct profile *profile, const struct heap_profile_options *options,
		      struct heap_profile *ret, struct error *error);
void heap_profile_release(struct heap_profile *profile);

#endif
