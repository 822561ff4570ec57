/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `lifetimes`: how long blocks lived, overall and by site.
 *
 * Sites with the most blocks freed within a millisecond come first: that is where allocating and
 * freeing costs time. Classes are powers of two in milliseconds; text output merges two into one bar.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/query/site_table.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/text/units.h"

enum { LABELLED = 40, BAR_CHARACTERS = 40 };

static bool frees_something(const struct entry *e)
{
	return e->m.frees != 0;
}

static void add_lifetimes(const struct selection *s, const struct entry *e,
			  struct time_class counts[TIME_CLASSES])
{
	const struct profile_process *p = e->process;
	const bool *slots = selection_slots(s, p);

	for (size_t i = 0; i < profile_counters_count(p, e->site->id); i++) {
		struct profile_counters counters = profile_counters(p, e->site->id, i);

		if (slots && !slots[counters.slot])
			continue;
		for (size_t j = 0; j < profile_counters_lifetime_count(p, e->site->id, i); j++) {
			struct profile_bar bar = profile_counters_lifetime(p, e->site->id, i, j);
			struct time_class *class = &counts[time_class_of(bar.low)];

			class->count = saturating_add(class->count, bar.count);
			class->high_ms = MAX(class->high_ms, bar.high);
			class->variance += fabs(
				estimate_variance(&counters.numbers, VARIANCE_FREES, bar.count));
		}
	}
}

static uint64_t short_lived_frees(const struct selection *s, const struct entry *e)
{
	struct time_class counts[TIME_CLASSES] = { 0 };

	add_lifetimes(s, e, counts);
	return counts[0].count;
}

/* "4.0 - 16.0 ms": the classes in [first, end), and no block lived for longest_ms. */
static const char *bar_label(struct arena *arena, unsigned first, unsigned end, uint64_t longest_ms)
{
	if (first == 0)
		return "below 1 ms";
	/* The recorder's last class begins below this. */
	if (end > LABELLED)
		return "longer";
	uint64_t low = UINT64_C(1) << (first - 1), high = UINT64_C(1) << (end - 1);

	high = MIN(high, longest_ms);

	return arena_printf(arena, "%s - %s", units_duration(low * 1000000).text,
			    units_duration(high * 1000000).text);
}

static void describe_bar(struct sentences *sentences, const char *label, struct time_class class,
			 uint64_t total, uint64_t largest)
{
	uint64_t count = class.count;
	struct arena *arena = &sentences->result->arena;
	char bar[BAR_CHARACTERS + 1] = { 0 };
	/* Even the smallest count gets one character. */
	size_t length = largest ? (size_t)((double)count / (double)largest * BAR_CHARACTERS) : 0;
	struct words w = { 0 }, more = { 0 };

	memset(bar, '#', MAX(length, (size_t)(count > 0)));
	words_text(&w, arena_printf(arena, "%7s  %*s", units_percent(count, total).text,
				    11 - (int)strlen(units_count(count).text), ""));
	words_add(&w, value_estimate(value_count(count), class.variance));
	words_text(&more, arena_strdup(arena, bar));
	sentences_add(sentences, label, &w, &more);
}

/* "freed  101 blocks, alive for 0.9 ms on average; 15 blocks are left". aged: the frees of which that is known. */
static void describe_mean(struct sentences *sentences, const struct selection *s, uint64_t aged)
{
	const struct measures *m = &s->sum;
	struct words w = { 0 };

	words_estimate(&w, (uint64_t)m->frees, m->variance.frees, " block", " blocks");
	if (m->frees > 0 && aged == 0)
		words_text(&w, "; how long they lived was not recorded");
	else if (m->frees > 0 && m->lifetime_ms <= 0)
		words_text(&w, ", alive for less than 1 ms on average");
	else if (m->frees > 0)
		text_format(&w, ", alive for {} on average",
			    value_ns(mean_lifetime_ns((uint64_t)MAX(m->lifetime_ms, (int64_t)0),
						      aged)));
	if (m->live_blocks > 0) {
		words_text(&w, "; ");
		words_estimate(&w, (uint64_t)m->live_blocks, m->variance.live_blocks,
			       " block is left", " blocks are left");
	}
	sentences_add(sentences, "freed", &w, NULL);
}

static void describe_bars(struct sentences *sentences, const struct selection *s)
{
	struct time_class counts[TIME_CLASSES] = { 0 }, bars[TIME_CLASSES] = { 0 };
	uint64_t pairs[PAIR_CLASSES][PAIR_CLASSES];
	uint64_t total = 0, largest = 0, longest_ms = 0;
	unsigned last = 0;

	for (size_t i = 0; i < s->count; i++)
		add_lifetimes(s, &s->entries[i], counts);
	for (unsigned i = 0; i < TIME_CLASSES; i++) {
		total = saturating_add(total, counts[i].count);
		longest_ms = MAX(longest_ms, counts[i].high_ms);
	}
	describe_mean(sentences, s, total);
	time_classes_tell(sentences, "lifetimes", counts);
	for (unsigned i = 0; i < TIME_CLASSES; i++) {
		/* 0 alone; then 1 and 2, 3 and 4, ... */
		unsigned bar = (i + 1) / 2;

		bars[bar].count = saturating_add(bars[bar].count, counts[i].count);
		bars[bar].variance += counts[i].variance;
		largest = MAX(largest, bars[bar].count);
		if (counts[i].count)
			last = bar;
	}
	(void)pairs_tell(sentences, s, "lifetimes_by_size", PAIRS_LIFETIME, total, pairs);
	for (unsigned i = 0; total && i <= last; i++)
		describe_bar(sentences,
			     bar_label(&sentences->result->arena, i ? 2 * i - 1 : 0, 2 * i + 1,
				       longest_ms),
			     bars[i], total, largest);
}

const struct site_view sites_lifetimes = {
	.defaults = { COST_CALLS, MOMENT_DEFAULT, KINDS_HEAP, .lifetimes = true },
	.columns = SITE_COLUMN_LIST(SITE_SHORT_LIVED_FREES, SITE_SHORT_LIVED_SHARE, SITE_FREES,
				    SITE_MEAN_LIFETIME_NS, SITE_MEDIAN_LIFETIME_NS,
				    SITE_MAX_LIFETIME_NS, SITE_NOT_FREED_BLOCKS),
	.wanted = frees_something,
	.weight = short_lived_frees,
	.of_whole_run = true,
	.say = describe_bars,
};
