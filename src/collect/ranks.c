/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks. Launchers (mpirun, mpiexec, srun) start each process with its number in a variable; nothing of MPI is needed to
 * read it. A process' environment is asked as it was at its exec, so that the children of a rank have its rank too.
 *
 * SLURM says SLURM_PROCID=0 to batch scripts as well, which are no rank of anything: it counts in a step only. It comes
 * last, since mpirun in a step starts processes of its own numbering.
 * No state. Any thread.
 */
#include "collect/ranks.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/procfs.h"
#include "util/cleanup.h"

static const struct {
	const char *name, *only_with;
} variables[] = {
	{ "PMIX_RANK", NULL },
	{ "OMPI_COMM_WORLD_RANK", NULL },
	{ "PMI_RANK", NULL },
	{ "SLURM_PROCID", "SLURM_STEP_ID" },
};

/* Digits up to one of `ends`, which *text is moved to; RANK_NONE if there are none, or too many. */
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

/* The texts lie one behind the other, up to an empty one. */
static const char *find_in(const char *texts, const char *name)
{
	size_t length = strlen(name);

	for (; *texts; texts += strlen(texts) + 1) {
		if (strncmp(texts, name, length) == 0 && texts[length] == '=')
			return texts + length + 1;
	}
	return NULL;
}

/* texts NULL: our own environment. */
static int find_rank(const char *texts)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *name = variables[i].name, *with = variables[i].only_with;
		const char *value = texts ? find_in(texts, name) : getenv(name);
		int rank = value ? parse_number(&value, "") : RANK_NONE;

		if (rank == RANK_NONE || (with && !(texts ? find_in(texts, with) : getenv(with))))
			continue;
		return rank;
	}
	return RANK_NONE;
}

int rank_own(void)
{
	return find_rank(NULL);
}

int rank_of(pid_t pid)
{
	size_t bytes = 0;
	AUTO_FREE char *texts = procfs_file(pid, "environ", &bytes);
	char *whole;

	if (!texts)
		return RANK_NONE;
	/* A program may have written over its environment: what is there need not end. */
	whole = realloc(texts, bytes + 2);
	if (!whole)
		return RANK_NONE;
	texts = whole;
	texts[bytes] = texts[bytes + 1] = '\0';
	return find_rank(texts);
}
