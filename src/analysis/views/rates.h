/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens now: two readings of one running process, compared. A reading is kept as the few counters that rates are made
 * of, so that the profile itself can go. For `heapgauge top`.
 */
#ifndef ANALYSIS_VIEWS_RATES_H
#define ANALYSIS_VIEWS_RATES_H

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "analysis/result/result.h"
#include "util/error.h"

struct reading;

/* Of the profile's first process, which it must have. NULL if out of memory. */
struct reading *reading_keep(const struct profile *profile);
void reading_free(struct reading *reading);

enum rates_order {
	RATES_BY_COST,	 /* the query's */
	RATES_BY_CALLS,	 /* calls per second, now */
	RATES_BY_GROWTH, /* live bytes per second, now */
};

/* The sites of the query: its cost, and what each does now. `before` NULL: nothing is known of now. NULL with the error
 * set. */
struct result *rates_sites(const struct profile *profile, struct locations *locations,
			   const struct query *query, const struct reading *before,
			   enum rates_order order, struct error *error);

/* Per second, rounded to the nearest; 0 if no time has passed. Pure. */
int64_t rate_of(int64_t difference, uint64_t elapsed_ns);

#endif
