/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Current activity: compares two readings of a running process. A reading keeps only the counters that rates need, so that
 * the profile can be freed. For `heapgauge top`.
 */
#ifndef TUI_RATES_H
#define TUI_RATES_H

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "analysis/result/result.h"
#include "util/error.h"

struct reading;

/* Reads the profile's first process, which must exist. NULL if out of memory. */
struct reading *reading_keep(const struct profile *profile);
void reading_free(struct reading *reading);

enum rates_order {
	RATES_BY_COST,	 /* the query's cost */
	RATES_BY_CALLS,	 /* current calls per second */
	RATES_BY_GROWTH, /* current growth in live bytes per second */
};

/* The sites of the query, with their cost and current activity. `before` NULL: the activity is unknown. NULL with the
 * error set on failure. */
struct result *rates_sites(const struct profile *profile, struct locations *locations,
			   const struct query *query, const struct reading *before,
			   enum rates_order order, struct error *error);

/* Per second, rounded to nearest; 0 if no time has passed. Pure. */
int64_t rate_of(int64_t difference, uint64_t elapsed_ns);

#endif
