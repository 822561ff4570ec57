/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --process and --thread: a number is an id, anything else a regular expression on the name; "rank 3" is a name too. A
 * filter without matches is an error, not an empty result.
 */
#include "analysis/query/process_choice.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/threads.h"

enum { RANK_TEXT_BYTES = 24 };

/* A parsed filter. */
struct matcher {
	bool by_name;
	regex_t regex;
	unsigned long id;
};

static int matcher_init(struct matcher *m, const char *filter, const char *option,
			struct error *error)
{
	const char *at = filter;

	while (isdigit((unsigned char)*at))
		at++;
	m->by_name = *at != '\0';
	m->id = strtoul(filter, NULL, 10);
	if (m->by_name && regcomp(&m->regex, filter, REG_EXTENDED | REG_NOSUB) != 0)
		return error_set(error, "%s: '%s' is neither a number nor a regular expression",
				 option, filter);
	return 0;
}

static void matcher_release(struct matcher *m)
{
	if (m->by_name)
		regfree(&m->regex);
}

static bool matcher_fits(const struct matcher *m, const char *name, unsigned long id)
{
	return m->by_name ? regexec(&m->regex, name, 0, NULL, 0) == 0 : m->id == id;
}

/* "rank 3" */
static const char *rank_text(const struct profile_process *p, char ret[RANK_TEXT_BYTES])
{
	snprintf(ret, RANK_TEXT_BYTES, "rank %u", p->rank - 1);
	return ret;
}

bool *choose_processes(const struct profile *profile, const char *filter, struct arena *arena,
		       struct error *error)
{
	bool *all = ARENA_ARRAY(arena, bool, profile->process_count), some = !filter;
	struct matcher matcher = { 0 };
	char rank[RANK_TEXT_BYTES];

	if (!all) {
		error_set(error, "out of memory");
		return NULL;
	}
	if (filter && matcher_init(&matcher, filter, "--process", error) < 0)
		return NULL;
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		all[i] = !filter || matcher_fits(&matcher, p->command, p->pid) ||
			 (p->rank && matcher_fits(&matcher, rank_text(p, rank), p->pid));
		some = some || all[i];
	}
	matcher_release(&matcher);
	if (filter && !some) {
		error_set(error,
			  "no process has the number or matches '%s'; '--view processes' "
			  "lists them",
			  filter);
		return NULL;
	}
	return all;
}

bool **choose_threads(const struct profile *profile, const char *filter, struct arena *arena,
		      struct error *error)
{
	bool **all = ARENA_ARRAY(arena, bool *, profile->process_count), some = false;
	struct matcher matcher;

	if (!all) {
		error_set(error, "out of memory");
		return NULL;
	}
	if (matcher_init(&matcher, filter, "--thread", error) < 0)
		return NULL;
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		all[i] = ARENA_ARRAY(arena, bool, profile_thread_count(p));
		for (size_t j = 0; all[i] && j < profile_thread_count(p); j++) {
			struct profile_thread t = profile_thread(p, j);

			all[i][j] = matcher_fits(&matcher, t.name, t.tid);
			some = some || all[i][j];
		}
		if (!all[i]) {
			matcher_release(&matcher);
			error_set(error, "out of memory");
			return NULL;
		}
	}
	matcher_release(&matcher);
	if (!some) {
		error_set(error,
			  "no thread has the number or matches '%s'; '--view threads' lists them",
			  filter);
		return NULL;
	}
	return all;
}

bool *processes_choose(const struct profile *profile, const struct query *query,
		       struct arena *arena, struct error *error)
{
	const struct filters *f = &query->filters;

	if (filters_are_finer_than_processes(f)) {
		error_set(error, "this view shows whole processes: the only filter it takes is "
				 "--process");
		return NULL;
	}
	return choose_processes(profile, f->process, arena, error);
}
