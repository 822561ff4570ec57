/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the moment of a query to the live bytes and blocks of each site. */
#ifndef ANALYSIS_QUERY_MOMENTS_H
#define ANALYSIS_QUERY_MOMENTS_H

#include "analysis/result/vocabulary.h"
#include "model/estimates.h"
#include "model/history.h"
#include "model/profile.h"

/* The moment of one process that a query refers to. */
struct resolved_moment {
	enum {
		RESOLVED_NOTHING,
		RESOLVED_PEAK,
		RESOLVED_END,
		RESOLVED_SNAPSHOT
	} kind;				 /* NOTHING: the process was not running */
	uint64_t at_ns;			 /* since the start of the recording */
	struct site_live *live;		 /* SNAPSHOT: by site id */
	struct live_variance *variances; /* SNAPSHOT: variances of estimates; NULL: none */
};

/*
 * Returns an array by process, in the arena. TIME and SNAP resolve to the nearest moment: a snapshot, the peak
 * or the end. NULL with the error set if there is no such snapshot, or out of memory.
 */
struct resolved_moment *moments_resolve(const struct profile *profile, struct moment moment,
					struct arena *arena, struct error *error);

/* The live numbers of the site and their variance. For the peak, the end and NOTHING, `numbers` may cover a subset of the site's
 * threads; snapshots exist per site only. */
struct site_live moment_live(const struct resolved_moment *moment, site_id site,
			     const struct site_numbers *numbers);
struct live_variance moment_variance(const struct resolved_moment *moment, site_id site,
				     const struct site_numbers *numbers);

/* "at the peak, 9.1 s"; in the arena; NULL if out of memory. */
const char *moment_text(const struct profile *profile, struct moment asked,
			const struct resolved_moment *moments, struct arena *arena);

#endif
