/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether memory grows without bound, judged by the live bytes at the snapshots.
 *
 * The last two thirds of the recorded time are split into equal parts, of which only the minimum (the floor)
 * counts: memory that rises and falls back does not grow. Kendall's test for a trend and the Theil-Sen
 * slope (the median of the slopes between all pairs) are applied to these floors. Growing memory must
 * still rise at the end, and by enough bytes and blocks to rule out chance. A sampled series is bounded only if
 * three standard errors could not hide a rise of a tenth of it.
 *
 * The growth of a process is the sum over its growing sites. If no single site is certain to grow but the
 * heap is, because the growth is spread over very many sites, it is that of the heap. All views use these
 * functions.
 */
#ifndef ANALYSIS_ADVICE_TREND_H
#define ANALYSIS_ADVICE_TREND_H

#include <stddef.h>
#include <stdint.h>

#include "model/history.h"
#include "model/profile.h"
#include "util/arena.h"

enum trend_verdict { TREND_UNKNOWN, TREND_BOUNDED, TREND_GROWING };
const char *trend_name(enum trend_verdict verdict); /* "unknown", "bounded", "growing" */

enum {
	TREND_PARTS = 8,
	TREND_MOMENTS = 8, /* minimum number for a verdict */
	TREND_STEPS = 16,  /* minimum rise in blocks or growing reallocs, likewise */
};

struct trend {
	enum trend_verdict verdict;
	size_t moments;		       /* number of snapshots judged */
	uint64_t from_ns, to_ns;       /* since the process' start: first and last of these */
	int64_t first, last;	       /* floors, in bytes */
	int64_t per_second;	       /* bytes; 0 without a verdict */
	int64_t slowest, fastest;      /* 95 % confidence interval of the slope */
	unsigned confidence_per_mille; /* that it rises at all; 0: it does not */
	bool is_uncertain; /* UNKNOWN only because the samples are too few to call it bounded */
};

/* The minimum of one part, and its time. */
struct floor {
	uint64_t at_ns;
	int64_t bytes, blocks;
};
struct trend trend_fit(const struct floor floors[TREND_PARTS]);

/* The trends of all sites of a process, computed in passes over the snapshots. In an arena. */
struct trends {
	const struct profile_process *process;
	size_t snapshots; /* number that count */
	uint64_t from_ns, to_ns;
	struct trend heap; /* sum over all heap sites */

	struct site_live *values; /* by site id: its last value */
	uint32_t *number;	  /* by site id: index in its band + 1; 0: unchanged */
	struct trend **changing;  /* by band: the sites that changed */
};

/* -1 if out of memory. */
int trends_make(const struct profile_process *process, struct arena *arena, struct trends *ret);
struct trend trend_of_site(const struct trends *trends, const struct profile_site *site);

struct growth {
	enum trend_verdict
		verdict;    /* bounded: no site grows, and too little is unjudged to matter */
	size_t sites;	    /* number that grow */
	int64_t per_second; /* bytes; 0 unless it grows */
	int64_t most_per_second;
	const struct profile_site *most; /* the fastest-growing site; NULL: the whole heap */
	int64_t unjudged_bytes;		 /* live in sites whose trend is unknown, not counting: */
	size_t uncertain_sites;		 /* see struct trend; the heap's own trend covers them */
	bool is_partial;		 /* unjudged_bytes are too many to ignore */
	int64_t risen_bytes;		 /* by the heap's floor */
	size_t moments;			 /* number of snapshots judged */
	uint64_t from_ns, to_ns;	 /* since the process' start: first and last of these */
};
void growth_add(struct growth *growth, const struct profile_site *site, const struct trend *trend);
/* Call after all heap sites of the process are added. */
void growth_end(struct growth *growth, const struct trends *trends);
/* The growth over all heap sites of the process. */
struct growth trends_growth(const struct trends *trends);

#endif
