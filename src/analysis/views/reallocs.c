/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `reallocs`: which sites grow blocks incrementally, and how much was copied because a
 * block could not grow in place. The factor is the sum of new sizes over the sum of old ones: near
 * 1 means many small steps.
 */
#include "analysis/query/site_table.h"
#include "base/checked.h"

enum { SHOWN = 3 };

static bool reallocates(const struct entry *e)
{
	return e->m.realloc_calls != 0;
}

/* "64 B to 127 B" */
static void words_class(struct words *w, unsigned class)
{
	if (class < 2)
		words_add(w, value_bytes(class));
	else
		text_format(w, "{} - {}", value_bytes(UINT64_C(1) << (class - 1)),
			    value_bytes((UINT64_C(1) << class) - 1));
}

/* "most often  1,100 from 64 B - 127 B to 128 B - 255 B"; nothing if all steps happened once. */
static void describe_sizes(struct sentences *sentences, const struct selection *s, uint64_t calls)
{
	uint64_t sums[PAIR_CLASSES][PAIR_CLASSES];

	if (!pairs_tell(sentences, s, "steps", PAIRS_REALLOC, calls, sums))
		return;
	for (unsigned shown = 0; shown < SHOWN; shown++) {
		uint64_t *most = &sums[0][0];
		struct words w = { 0 };

		for (unsigned i = 0; i < PAIR_CLASSES * PAIR_CLASSES; i++)
			if (sums[i / PAIR_CLASSES][i % PAIR_CLASSES] > *most)
				most = &sums[i / PAIR_CLASSES][i % PAIR_CLASSES];
		if (*most < 2)
			return;
		unsigned at = (unsigned)(most - &sums[0][0]);

		words_count(&w, *most, " from ", " from ");
		words_class(&w, at / PAIR_CLASSES);
		words_text(&w, " to ");
		words_class(&w, at % PAIR_CLASSES);
		sentences_add(sentences, shown ? "" : "most often", &w, NULL);
		*most = 0;
	}
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
	describe_sizes(sentences, s, sum.calls);
}

const struct site_view sites_reallocs = {
	.defaults = { COST_REALLOC, MOMENT_DEFAULT, KINDS_HEAP },
	.columns =
		SITE_COLUMN_LIST(SITE_COPIED_BYTES, SITE_REALLOC_CALLS, SITE_MOVED_SHARE,
				 SITE_GROWN_CALLS, SITE_SHRUNK_CALLS, SITE_GROWTH, SITE_MAX_BYTES),
	.wanted = reallocates,
	.say = describe_steps,
	.of_whole_run = true,
};
