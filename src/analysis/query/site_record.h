/* SPDX-License-Identifier: Apache-2.0 */
/* One site as a row with all its values. Used only by site_table.c. */
#ifndef ANALYSIS_QUERY_SITE_RECORD_H
#define ANALYSIS_QUERY_SITE_RECORD_H

#include "analysis/query/site_table.h"
#include "model/ages.h"

struct site_source {
	struct result *result;
	struct locations *locations;
	const struct selection *selection;
	struct profile_ages *ages;     /* by process, on first use; NULL: not needed */
	uint64_t whole[PROFILE_KINDS]; /* sum of the cost: the base of shares */
};

/* Name, default title and unit of a column. */
extern const struct source_column site_columns[SITE_COLUMNS];

/* Fills a row of SITE_COLUMNS values. False if out of memory. */
bool site_record(struct site_source *source, const struct entry *entry, struct result_value *row);

#endif
