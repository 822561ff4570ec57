/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether something grows without bound, judged from what it held at the snapshots.
 *
 * The last two thirds of its life are cut into equal parts, and of each only the least counts: what
 * goes up and down, and returns, does not grow. Over these floors go Kendall's test for a trend and
 * Theil and Sen's slope, the median of the slopes between all pairs. What grows must still rise at the
 * end, and by enough blocks that it is no chance.
 *
 * The growth of a process is that of the sites that grow, together. Where no site is sure to grow but the
 * heap is, because it does so in very many of them, it is the heap's. Every view has it from here.
 */
#ifndef ANALYSIS_ADVICE_TREND_H
#define ANALYSIS_ADVICE_TREND_H

#include <stddef.h>
#include <stdint.h>

#include "model/history.h"
#include "model/profile.h"
#include "util/arena.h"

enum trend_verdict { TREND_UNKNOWN, TREND_BOUNDED, TREND_GROWING };
const char *trend_name(enum trend_verdict verdict); /* "not enough data", "bounded", "growing" */

enum {
	TREND_PARTS = 8,
	TREND_MOMENTS = 8, /* with fewer there is no verdict */
	TREND_STEPS = 16,  /* nor with fewer blocks, or growing reallocs, by which it rose */
};

struct trend {
	enum trend_verdict verdict;
	size_t moments;		  /* that it was judged from */
	uint64_t from_ns, to_ns;  /* since the process' start: between the first and the last */
	int64_t first, last;	  /* floors, in bytes */
	int64_t per_second;	  /* bytes; 0 without a verdict */
	int64_t slowest, fastest; /* 95 % of the slopes that fit are between */
	unsigned confidence_per_mille; /* that it rises at all; 0: it does not */
};

/* The least of one part, and when that was. */
struct floor {
	uint64_t at_ns;
	int64_t bytes, blocks;
};
struct trend trend_fit(const struct floor floors[TREND_PARTS]);

/* Of all sites of a process, made in passes over what the snapshots hold. In an arena. */
struct trends {
	const struct profile_process *process;
	size_t snapshots; /* that count */
	uint64_t from_ns, to_ns;
	struct trend heap; /* of all heap sites together */

	struct site_live *values; /* by site id: what it held at last */
	uint32_t *number;	  /* by site id: its index in its band + 1; 0: it did not change */
	struct trend **changing;  /* by band: of the sites that changed */
};

/* -1 if out of memory. */
int trends_make(const struct profile_process *process, struct arena *arena, struct trends *ret);
struct trend trend_of_site(const struct trends *trends, const struct profile_site *site);

struct growth {
	size_t sites;	    /* that grow */
	int64_t per_second; /* bytes; 0: it does not grow */
	int64_t most_per_second;
	const struct profile_site *most; /* the site that grows most; NULL: it is the heap's */
};
void growth_add(struct growth *growth, const struct profile_site *site, const struct trend *trend);
/* Once all heap sites are added. */
void growth_end(struct growth *growth, const struct trends *trends);
/* Of all heap sites of the process. */
struct growth trends_growth(const struct trends *trends);

#endif
