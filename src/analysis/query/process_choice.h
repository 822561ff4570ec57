/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes and threads a question is about. */
#ifndef ANALYSIS_QUERY_PROCESS_CHOICE_H
#define ANALYSIS_QUERY_PROCESS_CHOICE_H

#include "analysis/result/query.h"
#include "model/profile.h"
#include "util/arena.h"
#include "util/error.h"

/*
 * By index in the profile, in the arena: those that the filter (a pid or an extended regex on the
 * command; NULL: all) means. NULL with the error set, also if it means none.
 */
bool *choose_processes(const struct profile *profile, const char *filter, struct arena *arena,
		       struct error *error);

/*
 * The same of threads (a tid or a regex on the name), by process and index in its threads. Pre: the
 * filter is not NULL.
 */
bool **choose_threads(const struct profile *profile, const char *filter, struct arena *arena,
		      struct error *error);

/*
 * choose_processes for views of whole processes: NULL with the error set also if something finer was
 * asked for.
 */
bool *processes_choose(const struct profile *profile, const struct query *query,
		       struct arena *arena, struct error *error);

#endif
