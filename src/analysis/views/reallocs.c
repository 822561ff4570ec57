/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `reallocs`: which sites grow blocks incrementally, and how much was copied because a
 * block could not grow in place. The factor is the sum of new sizes over the sum of old ones: near
 * 1 means many small steps.
 */
#include "analysis/query/site_table.h"
#include "base/checked.h"

static bool reallocates(const struct entry *e)
{
	return e->m.realloc_calls != 0;
}

/* "steps  1,204 reallocs at 12 sites: 300 moved the block, 1,100 grew it, 14 shrank it" */
static void describe_steps(struct sentences *sentences, const struct selection *s)
{
	struct realloc_numbers sum = { 0 };
	double calls = 0, moved = 0, grown = 0, shrunk = 0; /* variances */
	struct words w = { 0 };

	for (size_t i = 0; i < s->count; i++) {
		struct site_numbers n = selection_numbers(s, &s->entries[i]);
		struct realloc_numbers r = n.reallocs;

		sum.calls = saturating_add(sum.calls, r.calls);
		sum.moved_calls = saturating_add(sum.moved_calls, r.moved_calls);
		sum.grown_calls = saturating_add(sum.grown_calls, r.grown_calls);
		sum.shrunk_calls = saturating_add(sum.shrunk_calls, r.shrunk_calls);
		calls += estimate_variance(&n, VARIANCE_CALLS, r.calls);
		moved += estimate_variance(&n, VARIANCE_CALLS, r.moved_calls);
		grown += estimate_variance(&n, VARIANCE_CALLS, r.grown_calls);
		shrunk += estimate_variance(&n, VARIANCE_CALLS, r.shrunk_calls);
	}
	words_estimate(&w, sum.calls, calls, " realloc at ", " reallocs at ");
	words_count(&w, s->count, " site: ", " sites: ");
	words_estimate(&w, sum.moved_calls, moved, " moved the block, ", " moved the block, ");
	words_estimate(&w, sum.grown_calls, grown, " grew it, ", " grew it, ");
	words_estimate(&w, sum.shrunk_calls, shrunk, " shrank it", " shrank it");
	sentences_add(sentences, "steps", &w, NULL);
}

const struct site_view sites_reallocs = {
	.defaults = { COST_REALLOC, MOMENT_DEFAULT, KINDS_HEAP },
	.columns =
		SITE_COLUMN_LIST(SITE_COPIED_BYTES, SITE_REALLOC_CALLS, SITE_MOVED_SHARE,
				 SITE_GROWN_CALLS, SITE_SHRUNK_CALLS, SITE_GROWTH, SITE_MAX_BYTES),
	.wanted = reallocates,
	.say = describe_steps,
};
