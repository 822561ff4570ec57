/* SPDX-License-Identifier: Apache-2.0 */
/* Views with one row per function, type or any other axis of --by. */
#ifndef ANALYSIS_VIEWS_GROUPS_H
#define ANALYSIS_VIEWS_GROUPS_H

#include "analysis/analyses.h"

/* `usual`: the default axis. NULL with the error set on failure. */
struct result *group_view_run(const char *name, enum axis_id usual, const struct profile *profile,
			      struct locations *locations, const struct query *query,
			      struct error *error);

#endif
