/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All values of a site, as a row.
 *
 * Numbers cover the selected threads. Times from histogram classes are given as the bound that
 * holds: half of the blocks were freed within the upper bound of the median class, and half of the
 * remaining bytes are older than the lower bound of theirs.
 */
#include "analysis/query/site_record.h"

#include <math.h>
#include <string.h>

#include "analysis/result/path_value.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/ages.h"
#include "model/entries.h"
#include "model/image/reach.h"
#include "model/memory/pages.h"
#include "model/tags.h"

#define NUMBER(field, rule) FROM_U64, offsetof(struct site_numbers, field), VARIANCE_##rule

#define NS_IN_MS UINT64_C(1000000)

const struct source_column site_columns[SITE_COLUMNS] = { SITE_COLUMN_TABLE(COLUMN_ROW) };

static struct result_value ns_of_ms(uint64_t ms)
{
	uint64_t ns;

	return value_ns(checked_mul(ms, NS_IN_MS, &ns) ? ns : UINT64_MAX);
}

static bool realloc_value(struct result *result, const struct site_numbers *n,
			  struct profile_bars sizes, struct result_value *ret)
{
	const struct realloc_numbers *r = &n->reallocs;
	double old_variance = estimate_old_bytes_variance(n, sizes);
	const struct result_field fields[] = {
		{ "calls", value_part(UNIT_COUNT, r->calls, VARIANCE_CALLS, n) },
		{ "moved_calls", value_part(UNIT_COUNT, r->moved_calls, VARIANCE_CALLS, n) },
		{ "moved_bytes", value_part(UNIT_BYTES, r->moved_bytes, VARIANCE_BYTES, n) },
		{ "grown_calls", value_part(UNIT_COUNT, r->grown_calls, VARIANCE_CALLS, n) },
		{ "shrunk_calls", value_part(UNIT_COUNT, r->shrunk_calls, VARIANCE_CALLS, n) },
		{ "old_bytes", value_estimate(value_bytes(r->old_bytes), old_variance) },
		{ "new_bytes", value_part(UNIT_BYTES, r->new_bytes, VARIANCE_BYTES, n) },
	};
	const struct result_field *kept = arena_copy(&result->arena, fields, sizeof fields);

	*ret = (struct result_value){ .unit = UNIT_FIELDS, .fields = { kept, ARRAY_SIZE(fields) } };
	return kept != NULL;
}

/* One field for each label key. */
static bool labels_value(struct result *result, const struct entry *e, struct result_value *ret)
{
	const char *labels[PROFILE_LABELS_MAX];
	size_t count = profile_tag_label_list(e->process, e->site->tag, labels);
	struct result_field *fields = ARENA_ARRAY(&result->arena, struct result_field, count);

	for (size_t i = 0; i < count && fields; i++) {
		size_t key = strcspn(labels[i], "=");

		fields[i].name = arena_string(&result->arena, span_of(labels[i], key));
		fields[i].value = value_text(arena_strdup(&result->arena, labels[i] + key + 1));
		if (!fields[i].name || !fields[i].value.text)
			return false;
	}
	*ret = (struct result_value){ .unit = UNIT_FIELDS, .fields = { fields, count } };
	return fields != NULL;
}

static bool are_lifetimes_unknown(const struct site_numbers *n)
{
	return n->frees && !n->aged_frees;
}

/* For a size class the variance is known; a lifetime class gets its share of the variance of frees. */
static float bar_error(enum result_unit unit, const struct profile_bar *bar,
		       const struct site_numbers *n)
{
	double variance = unit == UNIT_SIZES ? bar->variance
					     : estimate_variance(n, VARIANCE_FREES, bar->count);

	return (float)sqrt(fabs(variance));
}

static bool bars_value(struct result *result, enum result_unit unit, struct profile_bars from,
		       const struct site_numbers *n, struct result_value *ret)
{
	struct result_bar *bars = ARENA_ARRAY(&result->arena, struct result_bar, from.count);

	if (!bars)
		return false;
	for (size_t i = 0; i < from.count; i++)
		bars[i] = (struct result_bar){ from.at[i].low, from.at[i].high, from.at[i].count,
					       bar_error(unit, &from.at[i], n) };
	*ret = (struct result_value){ .unit = unit, .bars = { bars, from.count } };
	return true;
}

/* No block lives longer than its process. */
static struct result_value ns_within(const struct profile_process *p, uint64_t ms)
{
	struct result_value ns = ns_of_ms(ms);

	return p->duration_ns && ns.number > p->duration_ns ? value_ns(p->duration_ns) : ns;
}

/* The lower bound of the class of the shortest lifetime, the upper bounds of those of the median and of the longest. Open classes have
 * none. */
static void fill_within(const struct profile_process *p, struct profile_bars bars,
			struct result_value *row)
{
	uint64_t total = 0, below = 0;

	row[SITE_MEDIAN_LIFETIME_NS] = row[SITE_MAX_LIFETIME_NS] = value_unknown();
	row[SITE_MIN_LIFETIME_NS] = bars.count ? ns_of_ms(bars.at[0].low) : value_unknown();
	row[SITE_SHORT_LIVED_FREES] = bars.count ? value_count(0) : value_unknown();
	for (size_t i = 0; i < bars.count; i++)
		total = saturating_add(total, bars.at[i].count);
	for (size_t i = 0; i < bars.count; i++) {
		bool had_half = below >= total - total / 2;

		below = saturating_add(below, bars.at[i].count);
		if (!had_half && below >= total - total / 2)
			row[SITE_MEDIAN_LIFETIME_NS] = ns_within(p, bars.at[i].high);
		row[SITE_MAX_LIFETIME_NS] = ns_within(p, bars.at[i].high);
		if (bars.at[i].high <= 1)
			row[SITE_SHORT_LIVED_FREES].number += bars.at[i].count;
	}
}

static void fill_extremes(struct profile_bars sizes, struct result_value *row)
{
	row[SITE_SMALLEST_BYTES] = row[SITE_LARGEST_BYTES] = value_unknown();
	if (sizes.count == 0)
		return;
	uint64_t most = sizes.at[sizes.count - 1].high;

	row[SITE_SMALLEST_BYTES] = value_bytes(sizes.at[0].low);
	if (most != UINT64_MAX) /* an open class */
		row[SITE_LARGEST_BYTES] = value_bytes(most);
}

static bool fill_distributions(const struct site_source *s, const struct entry *e,
			       const struct site_numbers *n, struct result_value *row)
{
	const bool *slots = selection_slots(s->selection, e->process);
	struct arena *arena = &s->result->arena;
	struct profile_bars sizes, lifetimes;

	if (profile_sizes(e->process, e->site->id, slots, arena, &sizes) < 0 ||
	    profile_lifetimes(e->process, e->site->id, slots, arena, &lifetimes) < 0)
		return false;
	fill_within(e->process, lifetimes, row);
	fill_extremes(sizes, row);
	row[SITE_SHORT_LIVED_SHARE] =
		value_percent(row[SITE_SHORT_LIVED_FREES].number, n->aged_frees);
	if (!are_lifetimes_unknown(n))
		row[SITE_SHORT_LIVED_FREES] = value_part(
			UNIT_COUNT, row[SITE_SHORT_LIVED_FREES].number, VARIANCE_FREES, n);
	row[SITE_MEAN_BYTES] =
		value_estimate(row[SITE_MEAN_BYTES], estimate_mean_size_variance(n, sizes));
	if (n->live_blocks)
		row[SITE_MEAN_NOT_FREED_BYTES] =
			value_estimate(value_bytes(n->live_bytes / n->live_blocks),
				       estimate_mean_size_variance(n, sizes) * (double)n->calls /
					       (double)n->live_blocks);
	row[SITE_MEAN_LIFETIME_NS] =
		value_estimate(row[SITE_MEAN_LIFETIME_NS],
			       estimate_mean_life_variance(n, lifetimes) * NS_IN_MS * NS_IN_MS);
	return bars_value(s->result, UNIT_SIZES, sizes, n, &row[SITE_SIZES]) &&
	       bars_value(s->result, UNIT_LIFETIMES, lifetimes, n, &row[SITE_LIFETIMES]) &&
	       realloc_value(s->result, n, sizes, &row[SITE_REALLOC]);
}

/* The standard error of a part of the remaining blocks. */
static float age_error(const struct site_numbers *n, uint64_t blocks)
{
	return n->live_blocks ? (float)sqrt(fabs(n->live_blocks_variance) * (double)blocks /
					    (double)n->live_blocks)
			      : 0;
}

/* A lower bound, because it may be any block; if nothing was freed it is the first block, whose time is known. */
static struct result_value oldest_ns(const struct entry *e, const struct profile_age *age)
{
	uint64_t first_ms = saturating_sub(e->process->duration_ns, e->site->born_ns) / NS_IN_MS;
	bool is_first =
		e->site->numbers.frees == 0 && first_ms >= age->low_ms && first_ms < age->high_ms;

	return ns_of_ms(is_first ? first_ms : age->low_ms);
}

static bool fill_ages(struct site_source *s, const struct entry *e, const struct site_numbers *n,
		      struct result_value *row)
{
	struct profile_ages *ages = NULL;
	uint32_t first = 0, count = 0;
	uint64_t bytes = 0, older = 0;

	row[SITE_MEDIAN_AGE_NS] = row[SITE_MAX_AGE_NS] = value_unknown();
	if (s->ages) {
		ages = &s->ages[e->process - s->selection->profile->processes];
		if (!ages->first &&
		    profile_ages(e->process, selection_slots(s->selection, e->process),
				 &s->result->arena, ages) < 0)
			return false;
		first = ages->first[e->site->id.v];
		count = ages->first[e->site->id.v + 1] - first;
	}
	struct result_bar *bars = ARENA_ARRAY(&s->result->arena, struct result_bar, count);

	if (!bars)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_age *age = &ages->at[first + i];

		bars[i] = (struct result_bar){ age->low_ms, age->high_ms, age->blocks,
					       age_error(n, age->blocks) };
		bytes = saturating_add(bytes, age->bytes);
	}
	for (uint32_t i = count; i > 0; i--) {
		const struct profile_age *age = &ages->at[first + i - 1];
		bool had_half = i < count && older >= bytes - bytes / 2;

		older = saturating_add(older, age->bytes);
		if (!had_half && older >= bytes - bytes / 2)
			row[SITE_MEDIAN_AGE_NS] = ns_of_ms(age->low_ms);
		if (i == count)
			row[SITE_MAX_AGE_NS] = oldest_ns(e, age);
	}
	row[SITE_AGES] = (struct result_value){ .unit = UNIT_LIFETIMES, .bars = { bars, count } };
	return true;
}

/* A block that is sampled is so for its call and its free: their errors add up. */
static struct result_value operations_of(const struct site_numbers *n)
{
	double calls = sqrt(fabs(estimate_variance(n, VARIANCE_CALLS, n->calls)));
	double frees = sqrt(fabs(estimate_variance(n, VARIANCE_FREES, n->frees)));

	return value_estimate(value_count(saturating_add(n->calls, n->frees)),
			      (calls + frees) * (calls + frees));
}

static void fill_numbers(const struct site_source *s, const struct entry *e,
			 const struct site_numbers *n, struct result_value *row)
{
	const struct selection *sel = s->selection;
	const struct realloc_numbers *r = &n->reallocs;

	row[SITE_LIVE_BYTES] = cost_value(COST_LIVE, &e->m, sel->duration_ns, sel->change);
	row[SITE_LIVE_BLOCKS] = cost_value(COST_BLOCKS, &e->m, sel->duration_ns, sel->change);
	row[SITE_RATE] = cost_value(COST_RATE, &e->m, sel->duration_ns, false);
	row[SITE_LIFETIME_NS] = value_estimate(
		ns_of_ms(n->lifetime_ms_sum),
		estimate_variance(n, VARIANCE_LIFETIME, n->lifetime_ms_sum) * NS_IN_MS * NS_IN_MS);
	row[SITE_MEAN_BYTES] = n->calls ? value_bytes(n->bytes / n->calls) : value_unknown();
	row[SITE_MEAN_NOT_FREED_BYTES] = value_unknown();
	row[SITE_MEAN_LIFETIME_NS] =
		n->aged_frees ? value_ns(mean_lifetime_ns(n->lifetime_ms_sum, n->aged_frees))
			      : value_unknown();
	if (are_lifetimes_unknown(n))
		row[SITE_LIFETIME_NS] = value_unknown();
	row[SITE_OPERATIONS] = operations_of(n);
	row[SITE_TEMPORARY_SHARE] = value_percent(n->temporary_calls, n->calls);
	row[SITE_MOVED_SHARE] = value_percent(r->moved_calls, r->calls);
	row[SITE_FIRST_SEEN_NS] = value_ns(e->site->born_ns);
	if (!e->process->timed_of || n->allocator_ns == 0)
		row[SITE_ALLOCATOR_NS] = value_unknown();
	if (selection_is_untimed(sel, e->m.allocator_ns,
				 saturating_add_signed(e->m.calls, e->m.frees)))
		row[SITE_SHARE] = value_unknown();
	row[SITE_GROWTH] = value_unknown();
	if (r->old_bytes)
		row[SITE_GROWTH] = value_text(arena_printf(
			&s->result->arena, "%.2fx", (double)r->new_bytes / (double)r->old_bytes));
}

static void fill_pages(const struct entry *e, struct result_value *row)
{
	const struct site_pages pages = profile_site_pages(e->process, e->site->id);

	row[SITE_RESIDENT_BYTES] = value_bytes(pages.resident_bytes);
	row[SITE_PAGES_LIVE_BYTES] = value_bytes(pages.live_bytes);
	row[SITE_PAGES_BLOCKS] = value_count(pages.blocks);
	row[SITE_SOLE_BYTES] = value_bytes(pages.sole_bytes);
	row[SITE_ANY_BYTES] = value_bytes(pages.any_bytes);
	row[SITE_PINNED_BYTES] = value_bytes(pages.pinned_bytes);
	row[SITE_ARENA_BYTES] = value_bytes(pages.arena_bytes);
	row[SITE_UNTOUCHED_BYTES] = value_bytes(pages.untouched_bytes);
	row[SITE_SWAPPED_BYTES] = value_bytes(pages.swapped_bytes);
	row[SITE_HUGE_BYTES] = value_bytes(pages.huge_bytes);
	row[SITE_ZERO_BYTES] = value_bytes(pages.zero_bytes);
}

bool reach_value(struct result *result, const struct profile_reach *reach, struct result_value *ret)
{
	struct result_field *fields =
		ARENA_ARRAY(&result->arena, struct result_field, (size_t)2 * REACH_CLASSES);

	*ret = value_unknown();
	if (!fields)
		return false;
	for (unsigned i = 0; i < REACH_CLASSES; i++) {
		const char *name = reach_class_name((enum reach_class)i);

		fields[2 * i] =
			(struct result_field){ arena_printf(&result->arena, "%s_blocks", name),
					       value_count(reach->blocks[i]) };
		fields[2 * i + 1] =
			(struct result_field){ arena_printf(&result->arena, "%s_bytes", name),
					       value_bytes(reach->bytes[i]) };
		if (!fields[2 * i].name || !fields[2 * i + 1].name)
			return false;
	}
	*ret = (struct result_value){ .unit = UNIT_FIELDS,
				      .fields = { fields, (size_t)2 * REACH_CLASSES } };
	return true;
}

static bool fill_reach(struct site_source *s, const struct entry *e, struct result_value *row)
{
	static const enum site_column columns[] = { SITE_UNREACHABLE_BYTES,
						    SITE_UNREACHABLE_BLOCKS,
						    SITE_RETAINED_BYTES,
						    SITE_TYPE,
						    SITE_HELD_BY,
						    SITE_PATH,
						    SITE_REACH };
	struct profile_reach reach = profile_site_reach(e->process, e->site->id);

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		row[columns[i]] = value_unknown();
	if (!profile_has_reach(e->process))
		return true;
	row[SITE_UNREACHABLE_BYTES] = value_bytes(reach_unreachable_bytes(&reach));
	row[SITE_UNREACHABLE_BLOCKS] = value_count(reach_unreachable_blocks(&reach));
	row[SITE_RETAINED_BYTES] = value_bytes(reach.retained_bytes);
	if (!path_value(s->result, s->locations, e->process, e->site->id, &row[SITE_HELD_BY],
			&row[SITE_PATH]))
		return false;
	if (row[SITE_PATH].unit == UNIT_PATH && reach_unreachable_blocks(&reach))
		row[SITE_PATH].path.title = "the rest is held by";
	return reach_value(s->result, &reach, &row[SITE_REACH]) &&
	       site_type_value(s->result, e->process, e->site->id, &row[SITE_TYPE]);
}

/* What a site has beside its stack. */
static bool fill_texts(struct site_source *s, const struct entry *e, struct result_value *row)
{
	const char *pool = profile_tag_pool(e->process, e->site->tag);
	const char *path = profile_tag_path(e->process, e->site->tag, &s->result->arena);
	const char *called = profile_entry_name(e->site);

	row[SITE_ENTRY] = value_text(*called ? called : NULL);
	row[SITE_TAG] = value_text(path && *path ? path : NULL);
	row[SITE_POOL] = value_text(*pool ? pool : NULL);
	return path;
}

static const char *state_of(const struct profile_process *p, const struct site_numbers *n)
{
	if (n->live_blocks == 0)
		return "freed";
	return profile_end_leaks(p->end) ? "not freed at exit" : "live";
}

/* Clears the values that were not measured for the selected threads. */
static void clear_unknown(const struct site_numbers *n, struct result_value *row)
{
	static const enum site_column unknown_if_remote_frees[] = {
		SITE_PEAK_BYTES,
		SITE_PEAK_BLOCKS,
		SITE_NOT_FREED_INTERNAL_FRAGMENTATION_BYTES,
		SITE_LIFETIME_NS,
		SITE_MEAN_LIFETIME_NS,
		SITE_SHORT_LIVED_FREES,
		SITE_SHORT_LIVED_SHARE,
		SITE_MIN_LIFETIME_NS,
		SITE_MEDIAN_LIFETIME_NS,
		SITE_MAX_LIFETIME_NS,
		SITE_LIFETIMES,
	};
	static const enum site_column unknown_if_no_live[] = {
		SITE_LIVE_BYTES, SITE_LIVE_BLOCKS, SITE_NOT_FREED_BYTES, SITE_NOT_FREED_BLOCKS,
		SITE_FREES,	 SITE_FREED_BYTES, SITE_OPERATIONS,
	};

	for (size_t i = 0; n->has_remote_frees && i < ARRAY_SIZE(unknown_if_remote_frees); i++)
		row[unknown_if_remote_frees[i]] = value_unknown();
	for (size_t i = 0; n->live_unknown && i < ARRAY_SIZE(unknown_if_no_live); i++)
		row[unknown_if_no_live[i]] = value_unknown();
}

/* Columns whose numbers are those between the two moments; all others are of the whole run. */
static void fill_window(const struct site_source *s, const struct entry *e,
			const struct site_numbers *n, struct result_value *row)
{
	static const enum site_column counted[] = {
		SITE_TOTAL_BYTES, SITE_CALLS,	    SITE_TEMPORARY_CALLS,
		SITE_FREES,	  SITE_FREED_BYTES, SITE_INTERNAL_FRAGMENTATION_BYTES,
	};
	struct site_numbers w = selection_counted(s->selection, e->process, e->site->id, n);

	for (size_t i = 0; i < ARRAY_SIZE(counted); i++)
		row[counted[i]] = source_estimate(&site_columns[counted[i]], &w, &w);
	row[SITE_MEAN_BYTES] = w.calls ? value_bytes(w.bytes / w.calls) : value_unknown();
	row[SITE_OPERATIONS] = operations_of(&w);
	row[SITE_TEMPORARY_SHARE] = value_percent(w.temporary_calls, w.calls);
}

/* Clears what a heap profile of another tool does not have. */
static void clear_imported(const struct profile_process *p, struct result_value *row)
{
	static const enum site_column known[] = {
		SITE_PROCESS,
		SITE_ID,
		SITE_KIND,
		SITE_STATE,
		SITE_SHARE,
		SITE_LIVE_BYTES,
		SITE_LIVE_BLOCKS,
		SITE_NOT_FREED_BYTES,
		SITE_NOT_FREED_BLOCKS,
		SITE_SAMPLES,
		SITE_POOL,
		SITE_TAG,
		SITE_LABELS,
		SITE_LABEL,
		SITE_MEAN_NOT_FREED_BYTES,
		/* with totals */
		SITE_CALLS,
		SITE_TOTAL_BYTES,
		SITE_FREES,
		SITE_FREED_BYTES,
		SITE_MEAN_BYTES,
	};
	size_t count = ARRAY_SIZE(known) - (p->has_totals ? 0 : 5);

	for (enum site_column c = 0; p->imported && c < SITE_COLUMNS; c++) {
		bool is_known = false;

		for (size_t i = 0; i < count && !is_known; i++)
			is_known = known[i] == c;
		if (!is_known)
			row[c] = value_unknown();
	}
}

bool site_record(struct site_source *s, const struct entry *e, struct result_value *row)
{
	const struct profile_process *p = e->process;
	struct site_numbers n = selection_numbers(s->selection, e);

	for (size_t i = 0; i < SITE_COLUMNS; i++)
		row[i] = source_estimate(&site_columns[i], &n, &n);
	row[SITE_PROCESS] = value_id(p->pid);
	row[SITE_ID] = value_id(e->site->id.v);
	row[SITE_KIND] = value_text(profile_kind_name(e->site->kind));
	if (!fill_texts(s, e, row))
		return false;
	row[SITE_STATE] = value_text(state_of(p, &n));
	row[SITE_SHARE] =
		value_percent(selection_magnitude(s->selection, &e->m), s->whole[e->site->kind]);
	fill_numbers(s, e, &n, row);
	fill_pages(e, row);
	row[SITE_LABEL] = value_text(stack_label(s->result, s->locations, p, e->site->node));
	if (!row[SITE_LABEL].text || !labels_value(s->result, e, &row[SITE_LABELS]) ||
	    !fill_distributions(s, e, &n, row) || !fill_ages(s, e, &n, row) ||
	    !fill_reach(s, e, row))
		return false;
	if (s->selection->window)
		fill_window(s, e, &n, row);
	clear_unknown(&n, row);
	clear_imported(p, row);
	return stack_value(s->result, s->locations, p, e->site->node, &row[SITE_STACK]);
}
