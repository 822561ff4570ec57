/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launchers (mpirun, mpiexec, srun) start each process with its rank in an environment variable, so that no MPI library is
 * needed to read it. Children of a rank inherit the variable and thus its rank.
 *
 * SLURM also sets SLURM_PROCID=0 in batch scripts, which are not ranks, so it counts only within a job step. It comes last,
 * since mpirun within a step numbers its own processes. No state. Any thread.
 */
#include "collect/kernel/ranks.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "format/live/live_handover.h"

static const struct {
	const char *name, *only_with;
} variables[] = { LIVE_RANK_VARIABLES };

/* Parses digits up to one of `ends` and advances *text to it; RANK_NONE if there are none, or too many. */
static int parse_number(const char **text, const char *ends)
{
	const char *at = *text;
	long number = 0;

	for (; *at >= '0' && *at <= '9' && number <= INT_MAX; at++)
		number = number * 10 + (*at - '0');
	if (at == *text || number > INT_MAX || !strchr(ends, *at))
		return RANK_NONE;
	*text = at;
	return (int)number;
}

int ranks_parse(const char *text, struct ranks *ret, struct error *error)
{
	struct ranks ranks = { 0 };
	const char *at = text;

	for (;;) {
		int first = parse_number(&at, "-,"), last = first;

		if (first != RANK_NONE && *at == '-') {
			at++;
			last = parse_number(&at, ",");
		}
		if (first == RANK_NONE || last < first)
			return error_set(error,
					 "--ranks takes numbers and ranges such as 0,3-5, not %s",
					 text);
		if (ranks.count == RANKS_RANGES_MAX)
			return error_set(error, "--ranks takes at most %d ranges",
					 RANKS_RANGES_MAX);
		ranks.range[ranks.count].first = first;
		ranks.range[ranks.count++].last = last;
		if (*at == '\0')
			break;
		at++;
	}
	*ret = ranks;
	return 0;
}

bool ranks_have(const struct ranks *ranks, int rank)
{
	for (unsigned i = 0; i < ranks->count; i++) {
		if (rank >= ranks->range[i].first && rank <= ranks->range[i].last)
			return true;
	}
	return ranks->count == 0;
}

void ranks_write(const struct ranks *ranks, char *to, size_t room)
{
	size_t used = 0;

	to[0] = '\0';
	for (unsigned i = 0; i < ranks->count; i++) {
		int length = snprintf(to + used, room - used, "%d-%d;", ranks->range[i].first,
				      ranks->range[i].last);

		if (length < 0 || (size_t)length >= room - used) {
			to[0] = '\0';
			return;
		}
		used += (size_t)length;
	}
}

int rank_own(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = getenv(variables[i].name), *with = variables[i].only_with;
		int rank = value ? parse_number(&value, "") : RANK_NONE;

		if (rank != RANK_NONE && (!with || getenv(with)))
			return rank;
	}
	return RANK_NONE;
}
