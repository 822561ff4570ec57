/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `leaks`: memory not freed at exit, with its age then. It is unknown whether the program could
 * still reach it, so nothing is called leaked.
 *
 * The rows of a process that was still running say "live".
 */
#include "analysis/query/site_table.h"
#include "base/checked.h"
#include "model/ages.h"
#include "util/cleanup.h"

/* Sums the blocks and bytes of the selected sites by age. False if out of memory. */
static bool add_ages(const struct selection *s, uint64_t bytes[TIME_CLASSES],
		     struct time_class blocks[TIME_CLASSES])
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
			const struct profile_age *age = &ages->at[j];
			unsigned at_class = time_class_of(age->low_ms);
			struct time_class *class = &blocks[at_class];

			bytes[at_class] = saturating_add(bytes[at_class], age->bytes);
			class->count = saturating_add(class->count, age->blocks);
			class->variance +=
				estimate_variance(&e->site->numbers, VARIANCE_CALLS, age->blocks);
		}
	}
	return true;
}

/* "age  98.9 % of it is older than 4.1 s" */
static void describe_age(struct sentences *sentences, const struct selection *s)
{
	uint64_t bytes[TIME_CLASSES] = { 0 }, total = 0, older = 0;
	struct time_class blocks[TIME_CLASSES] = { 0 };
	struct words w = { 0 };

	if (s->slots || s->asked.kind != MOMENT_END || s->change)
		return; /* ages are known for whole sites, at the end */
	if (!add_ages(s, bytes, blocks))
		sentences->failed = true;
	time_classes_tell(sentences, "ages", blocks);
	for (size_t i = 0; i < TIME_CLASSES; i++)
		total = saturating_add(total, bytes[i]);
	if (total == 0)
		return;
	size_t bucket = TIME_CLASSES;

	while (older < total - total / 2)
		older = saturating_add(older, bytes[--bucket]);
	if (bucket == 0)
		text_format(&w, "{} of it was allocated less than 1 ms before exit",
			    value_percent(older, total));
	else
		text_format(&w, "{} of it is older than {}", value_percent(older, total),
			    value_ns((UINT64_C(1) << (bucket - 1)) * 1000000));
	sentences_add(sentences, "age", &w, NULL);
}

const struct site_view sites_leaks = {
	.defaults = { COST_LIVE, MOMENT_END, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_MEAN_NOT_FREED_BYTES, SITE_FIRST_SEEN_NS,
				    SITE_MEDIAN_AGE_NS, SITE_AGES),
	.wanted = site_is_live,
	.say = describe_age,
};
