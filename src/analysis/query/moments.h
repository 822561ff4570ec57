/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the moment of a query to the numbers of each site: what was live then, and what had been counted by then. */
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
	} kind;				 /* NOTHING: the process was not running ... */
	bool ended;			 /* ... any more */
	uint64_t at_ns;			 /* since the start of the recording */
	struct site_live *live;		 /* SNAPSHOT: by site id */
	struct live_variance *variances; /* SNAPSHOT: variances of estimates; NULL: none */
	struct site_counts *counts; /* SNAPSHOT: by site id; NULL: not requested, or not kept */
	struct live_bound bound;    /* of each live number; PEAK: peak_bound_bytes has it */
};

/*
 * Returns an array by process, in the arena. TIME and SNAP resolve to the nearest moment: a snapshot, the peak
 * or the end. If `counted`, counts are read too, and TIME does not resolve to the peak, where they are unknown, unless the
 * snapshots of this recording lack them. NULL with the error set if there is no such snapshot, or out of memory.
 */
struct resolved_moment *moments_resolve(const struct profile *profile, struct moment moment,
					bool counted, struct arena *arena, struct error *error);

/*
 * Changes a moment of `of` to the same moment of `other`, another run. A number of a snapshot becomes its name, if `other` has a
 * snapshot of that name (the second of several stays the second), else its time. The name is in the arena.
 */
int moment_of_other_run(const struct profile *of, const struct profile *other, struct arena *arena,
			struct moment *moment, struct error *error);

/* Whether it is known what was counted by then. */
bool moment_is_counted(const struct resolved_moment *moment);
/* What the site counted between two such moments of its process (minus NULL: since its start): calls, bytes, frees, freed bytes,
 * temporary, fragmentation, and their variances as estimate_variance() uses them; all else is 0. */
struct site_numbers moments_between(const struct resolved_moment *at,
				    const struct resolved_moment *minus, site_id site,
				    const struct site_numbers *numbers);

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
