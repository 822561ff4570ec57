/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict of a comparison: the owner of a change, and how its blocks changed. "Peak +2.7 MiB, 98 % of it in T::grow (t.cc:9):
 * the same number of blocks, 2.0 times their size."
 */
#ifndef ANALYSIS_ADVICE_CHANGE_VERDICT_H
#define ANALYSIS_ADVICE_CHANGE_VERDICT_H

#include "analysis/query/comparison.h"
#include "analysis/result/build.h"

enum { BEFORE_RUNS, AFTER_RUNS };

/* The owner with the largest part of a change. */
struct changed_owner {
	struct compared whole;
	enum cost_id cost;
	const char *label; /* NULL: nothing changed beyond spread and noise */
	int64_t change;
	const struct profile_site **sites; /* its heaviest sites, in ascending order */
	size_t site_count;
	double bytes[2],
		blocks[2]; /* of these sites: means over the runs, of the number that changed */
};

/* Finds it in a selection that compares; symbolizes the stacks with the largest changes. -1 if out of memory. */
int changed_owner_find(struct changed_owner *ret, struct result *result,
		       struct locations *locations, const struct selection *selection);
/* Adds the blocks of its sites, from a selection of the same query by blocks. */
void changed_owner_add_blocks(struct changed_owner *owner, const struct selection *selection);

/* How the blocks changed: "8 blocks instead of 2, 2.0 times their size"; "" if they were sampled. The text is constant or in the arena;
 * NULL: out of memory. */
const char *changed_owner_how(const struct changed_owner *owner, struct arena *arena);

/* "Peak +2.7 MiB, 98 % of it in ...". Texts are in the arena. */
void words_changed(struct words *words, struct arena *arena, const char *what,
		   const struct changed_owner *owner);
/* Whether one sentence says it of both. */
bool changed_alike(const struct changed_owner *a, const struct changed_owner *b);

#endif
