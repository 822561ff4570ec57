/* SPDX-License-Identifier: Apache-2.0 */
/* Views with a row for each function, type or whatever else --by says. */
#ifndef ANALYSIS_VIEWS_GROUPS_H
#define ANALYSIS_VIEWS_GROUPS_H

#include "analysis/analyses.h"

/* `usual`: the axis where the query has none. NULL with the error set. */
struct result *group_view_run(const char *name, enum axis_id usual, const struct profile *profile,
			      struct locations *locations, const struct query *query,
			      struct error *error);

#endif
