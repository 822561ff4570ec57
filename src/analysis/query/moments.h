/* SPDX-License-Identifier: Apache-2.0 */
/* From "at which moment" to what each site held there. */
#ifndef ANALYSIS_QUERY_MOMENTS_H
#define ANALYSIS_QUERY_MOMENTS_H

#include "analysis/result/vocabulary.h"
#include "model/estimates.h"
#include "model/history.h"
#include "model/profile.h"

/* The snapshot of one process that a question means. */
struct resolved_moment {
	enum {
		RESOLVED_NOTHING,
		RESOLVED_PEAK,
		RESOLVED_END,
		RESOLVED_SNAPSHOT
	} kind;			/* NOTHING: it did not run then */
	uint64_t at_ns;		/* since the start of the recording, or of the one process */
	struct site_live *live; /* SNAPSHOT: by site id ... */
	struct live_variance *variances; /* ... and of estimates; NULL: there are none */
};

/*
 * One for each process of the profile, in the arena. TIME and SNAP take the moment nearest to them: a snapshot,
 * the peak or the end. NULL with the error set if there is none such, or out of memory.
 */
struct resolved_moment *moments_resolve(const struct profile *profile, struct moment moment,
					struct arena *arena, struct error *error);

/* What the site held, and its variance. The numbers may be of some of its threads only at the peak, at the end or of nothing: other
 * moments are kept for sites alone. */
struct site_live moment_live(const struct resolved_moment *moment, site_id site,
			     const struct site_numbers *numbers);
struct live_variance moment_variance(const struct resolved_moment *moment, site_id site,
				     const struct site_numbers *numbers);

/* "at the peak, 9.1 s"; in the arena; NULL if out of memory. */
const char *moment_text(const struct profile *profile, struct moment asked,
			const struct resolved_moment *moments, struct arena *arena);

#endif
