/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a heap profile of another tool: live memory at one moment, and often totals. There is no peak, no free, no
 * lifetime and no thread in it, and a number that is not known is never shown as 0.
 */
#ifndef ANALYSIS_RESULT_IMPORTED_H
#define ANALYSIS_RESULT_IMPORTED_H

#include "analysis/result/query.h"
#include "model/profile.h"

/* True for every recording. */
bool imported_knows(const struct profile *profile, enum cost_id cost, enum moment_kind at);
/* For selection_make: rejects what the query asks for and is not known, and replaces a default of the view, in *cost and *at. */
int imported_choose(const struct profile *profile, const struct query *query, enum cost_id *cost,
		    struct moment *at, struct error *error);
/* The same for a view as a whole; `needs_run`: it shows what happened during a run. */
int imported_check(const struct profile *profile, const char *view, bool needs_run,
		   struct error *error);
/* Whether any process of the profile was imported. */
bool profile_is_imported(const struct profile *profile);

#endif
