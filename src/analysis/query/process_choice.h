/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the processes and threads of a query. */
#ifndef ANALYSIS_QUERY_PROCESS_CHOICE_H
#define ANALYSIS_QUERY_PROCESS_CHOICE_H

#include "analysis/result/query.h"
#include "model/profile.h"
#include "util/arena.h"
#include "util/error.h"

/*
 * Returns flags by process index, in the arena: the processes that match the filter (a pid or an
 * extended regex on the command; NULL: all). NULL with the error set on failure or if none matches.
 */
bool *choose_processes(const struct profile *profile, const char *filter, struct arena *arena,
		       struct error *error);

/*
 * The same for threads (a tid or a regex on the name), by process and thread index. Pre: the filter
 * is not NULL.
 */
bool **choose_threads(const struct profile *profile, const char *filter, struct arena *arena,
		      struct error *error);

/*
 * choose_processes for views of whole processes: also fails if the query has a filter finer than a
 * process.
 */
bool *processes_choose(const struct profile *profile, const struct query *query,
		       struct arena *arena, struct error *error);

#endif
