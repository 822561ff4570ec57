/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `leaks`: what was not freed at exit, with how old it was then. Whether the program could still
 * reach it is not known, so nothing is called leaked.
 *
 * Of a process that was still running the rows say "live".
 */
#include "analysis/query/site_table.h"
#include "base/checked.h"
#include "model/ages.h"
#include "util/cleanup.h"

enum { AGE_BUCKETS = 65 };

/* Of the selected sites by age; index i is [2^(i-1), 2^i) ms. False if out of memory. */
static bool add_ages(const struct selection *s, uint64_t bytes[AGE_BUCKETS],
		     uint64_t blocks[AGE_BUCKETS], double variances[AGE_BUCKETS])
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	size_t processes = s->profile->process_count;
	struct profile_ages *all = ARENA_ARRAY(&scratch, struct profile_ages, processes);

	if (!all)
		return false;
	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		struct profile_ages *ages = &all[e->process - s->profile->processes];

		if (!ages->first &&
		    profile_ages(e->process, selection_slots(s, e->process), &scratch, ages) < 0)
			return false;
		uint32_t end = ages->first[e->site->id.v + 1];

		for (uint32_t j = ages->first[e->site->id.v]; j < end; j++) {
			uint64_t low = ages->at[j].low_ms;
			unsigned bucket = low ? 64u - (unsigned)__builtin_clzll(low) : 0;

			bytes[bucket] = saturating_add(bytes[bucket], ages->at[j].bytes);
			blocks[bucket] = saturating_add(blocks[bucket], ages->at[j].blocks);
			variances[bucket] += estimate_variance(&e->site->numbers, VARIANCE_CALLS,
							       ages->at[j].blocks);
		}
	}
	return true;
}

/* Blocks of all of them by age, in the head. */
static void tell_ages(struct sentences *sentences, const uint64_t blocks[AGE_BUCKETS],
		      const double variances[AGE_BUCKETS])
{
	struct result_bar *bars =
		ARENA_ARRAY(&sentences->result->arena, struct result_bar, AGE_BUCKETS);
	size_t count = 0;

	if (!bars) {
		sentences->failed = true;
		return;
	}
	for (unsigned i = 0; i < AGE_BUCKETS; i++)
		if (blocks[i])
			bars[count++] = (struct result_bar){
				i ? UINT64_C(1) << (i - 1) : 0,
				i < AGE_BUCKETS - 1 ? UINT64_C(1) << i : UINT64_MAX,
				blocks[i],
				(float)sqrt(variances[i]),
			};
	result_head_add(sentences->result, "ages",
			(struct result_value){ .unit = UNIT_LIFETIMES, .bars = { bars, count } });
}

/* "age  98.9 % of it is older than 4.1 s" */
static void say_age(struct sentences *sentences, const struct selection *s)
{
	uint64_t bytes[AGE_BUCKETS] = { 0 }, blocks[AGE_BUCKETS] = { 0 }, total = 0, older = 0;
	double variances[AGE_BUCKETS] = { 0 };
	struct words w = { 0 };

	if (s->slots || s->asked.kind != MOMENT_END || s->change)
		return; /* ages are of whole sites, at the end */
	if (!add_ages(s, bytes, blocks, variances))
		sentences->failed = true;
	tell_ages(sentences, blocks, variances);
	for (size_t i = 0; i < AGE_BUCKETS; i++)
		total = saturating_add(total, bytes[i]);
	if (total == 0)
		return;
	size_t bucket = AGE_BUCKETS;

	while (older < total - total / 2)
		older = saturating_add(older, bytes[--bucket]);
	if (bucket == 0)
		words_say(&w, "{} of it was allocated less than 1 ms before exit",
			  value_percent(older, total));
	else
		words_say(&w, "{} of it is older than {}", value_percent(older, total),
			  value_ns((UINT64_C(1) << (bucket - 1)) * 1000000));
	sentences_add(sentences, "age", &w, NULL);
}

const struct site_view sites_leaks = {
	.ask = { COST_LIVE, MOMENT_END, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_LEAKED_MEAN_BYTES, SITE_CALLS, SITE_BORN_NS,
				    SITE_OLDEST_NS, SITE_HALF_OLDER_NS, SITE_AGES),
	.wanted = site_is_live,
	.say = say_age,
};
