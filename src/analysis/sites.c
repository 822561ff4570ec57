/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `sites`: every stack that allocated, with all its numbers.
 *
 * Heaviest first: by what it held at its process' peak, then by what it leaked, then by what it
 * asked for in all; equal ones by process and site, so that the order is the same in every run. Names
 * and distributions are made for the rows that are shown, not for all.
 */
#include <stdlib.h>

#include "analysis/build.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

struct picked {
	const struct profile_process *process;
	const struct profile_site *site;
};

enum site_column {
	SITE_PROCESS,
	SITE_ID,
	SITE_KIND,
	SITE_PEAK_BYTES,
	SITE_PEAK_SHARE,
	SITE_PEAK_BLOCKS,
	SITE_LIVE_BYTES,
	SITE_LIVE_BLOCKS,
	SITE_CALLS,
	SITE_BYTES,
	SITE_TEMPORARY_CALLS,
	SITE_LABEL,
	SITE_FREES,
	SITE_FREED_BYTES,
	SITE_MAX_BYTES,
	SITE_MAX_EXACT,
	SITE_SLACK_BYTES,
	SITE_LIVE_SLACK_BYTES,
	SITE_REALLOC,
	SITE_SIZES,
	SITE_LIFETIMES,
	SITE_STACK,
	SITE_COLUMNS,
};

#define NUMBER(field) FROM_U64, offsetof(struct profile_site, numbers.field)

static const struct source_column columns[SITE_COLUMNS] = {
	[SITE_PROCESS] = { { "process", "PID", UNIT_ID }, FROM_VIEW, 0 },
	[SITE_ID] = { { "site", NULL, UNIT_ID }, FROM_U32, offsetof(struct profile_site, id) },
	[SITE_KIND] = { { "kind", "KIND", UNIT_TEXT }, FROM_VIEW, 0 },
	[SITE_PEAK_BYTES] = { { "peak_bytes", "AT PEAK", UNIT_BYTES }, NUMBER(peak_bytes) },
	[SITE_PEAK_SHARE] = { { NULL, "OF PEAK", UNIT_PERCENT }, FROM_VIEW, 0 },
	[SITE_PEAK_BLOCKS] = { { "peak_blocks", "BLOCKS", UNIT_COUNT }, NUMBER(peak_blocks) },
	[SITE_LIVE_BYTES] = { { "live_bytes", "LEAKED", UNIT_BYTES }, NUMBER(live_bytes) },
	[SITE_LIVE_BLOCKS] = { { "live_blocks", "BLOCKS", UNIT_COUNT }, NUMBER(live_blocks) },
	[SITE_CALLS] = { { "calls", "CALLS", UNIT_COUNT }, NUMBER(calls) },
	[SITE_BYTES] = { { "bytes", "TOTAL", UNIT_BYTES }, NUMBER(bytes) },
	[SITE_TEMPORARY_CALLS] = { { "temporary_calls", "TEMPORARY", UNIT_COUNT },
				   NUMBER(temporary_calls) },
	[SITE_LABEL] = { { NULL, "FROM", UNIT_TEXT }, FROM_VIEW, 0 },
	[SITE_FREES] = { { "frees", NULL, UNIT_COUNT }, NUMBER(frees) },
	[SITE_FREED_BYTES] = { { "freed_bytes", NULL, UNIT_BYTES }, NUMBER(freed_bytes) },
	[SITE_MAX_BYTES] = { { "max_bytes", NULL, UNIT_BYTES }, NUMBER(max_bytes) },
	[SITE_MAX_EXACT] = { { "max_exact", NULL, UNIT_FLAG },
			     FROM_BOOL,
			     offsetof(struct profile_site, numbers.max_exact) },
	[SITE_SLACK_BYTES] = { { "slack_bytes", NULL, UNIT_BYTES }, NUMBER(slack_bytes) },
	[SITE_LIVE_SLACK_BYTES] = { { "live_slack_bytes", NULL, UNIT_BYTES },
				    NUMBER(live_slack_bytes) },
	[SITE_REALLOC] = { { "realloc", NULL, UNIT_FIELDS }, FROM_VIEW, 0 },
	[SITE_SIZES] = { { "sizes", NULL, UNIT_SIZES }, FROM_VIEW, 0 },
	[SITE_LIFETIMES] = { { "lifetimes", NULL, UNIT_LIFETIMES }, FROM_VIEW, 0 },
	[SITE_STACK] = { { "stack", "STACK", UNIT_FRAMES }, FROM_VIEW, 0 },
};

static int descending(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_picked(const void *left, const void *right)
{
	const struct picked *a = left, *b = right;
	const struct site_numbers *x = &a->site->numbers, *y = &b->site->numbers;
	int order = descending(x->peak_bytes, y->peak_bytes);

	if (!order)
		order = descending(x->live_bytes, y->live_bytes);
	if (!order)
		order = descending(x->bytes, y->bytes);
	if (!order)
		order = descending((uintptr_t)b->process, (uintptr_t)a->process);
	return order ? order : descending(b->site->id.v, a->site->id.v);
}

static size_t count_sites(const struct profile *profile)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->process_count; i++)
		count += profile->processes[i].site_count;
	return count;
}

/* All sites in order; malloc'd, NULL if out of memory. */
static struct picked *pick_sites(const struct profile *profile, size_t count)
{
	struct picked *all = calloc(count + 1, sizeof *all);
	size_t at = 0;

	for (size_t i = 0; all && i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; j < p->site_count; j++)
			all[at++] = (struct picked){ p, &p->sites[j] };
	}
	if (all && count)
		qsort(all, count, sizeof *all, compare_picked);
	return all;
}

static bool realloc_value(struct result *result, const struct realloc_numbers *r,
			  struct result_value *ret)
{
	const struct result_field fields[] = {
		{ "calls", value_number(UNIT_COUNT, r->calls) },
		{ "moved_calls", value_number(UNIT_COUNT, r->moved_calls) },
		{ "moved_bytes", value_number(UNIT_BYTES, r->moved_bytes) },
		{ "grown_calls", value_number(UNIT_COUNT, r->grown_calls) },
		{ "shrunk_calls", value_number(UNIT_COUNT, r->shrunk_calls) },
		{ "old_bytes", value_number(UNIT_BYTES, r->old_bytes) },
		{ "new_bytes", value_number(UNIT_BYTES, r->new_bytes) },
	};
	const struct result_field *kept = arena_copy(&result->arena, fields, sizeof fields);

	*ret = (struct result_value){ .unit = UNIT_FIELDS, .fields = { kept, ARRAY_SIZE(fields) } };
	return kept != NULL;
}

static bool bars_value(struct result *result, enum result_unit unit, struct profile_bars from,
		       struct result_value *ret)
{
	struct result_bar *bars = ARENA_ARRAY(&result->arena, struct result_bar, from.count);

	if (!bars)
		return false;
	for (size_t i = 0; i < from.count; i++)
		bars[i] = (struct result_bar){ from.at[i].low, from.at[i].high, from.at[i].count };
	*ret = (struct result_value){ .unit = unit, .bars = { bars, from.count } };
	return true;
}

static bool fill_row(struct result *result, struct places *places, const struct picked *picked,
		     struct result_value *row)
{
	const struct profile_process *p = picked->process;
	const struct profile_site *site = picked->site;
	struct profile_bars sizes, lifetimes;

	for (size_t i = 0; i < SITE_COLUMNS; i++)
		row[i] = source_value(&columns[i], site);
	row[SITE_PROCESS] = value_number(UNIT_ID, p->pid);
	row[SITE_KIND] = value_text(profile_kind_name(site->kind));
	/* The peak is the heap's: what is mapped beside it is no part of it. */
	row[SITE_PEAK_SHARE] = value_percent(site->numbers.peak_bytes,
					     site->kind == PROFILE_HEAP ? p->peak_bytes : 0);
	if (!stack_value(result, places, p, site->node, &row[SITE_STACK]))
		return false;
	row[SITE_LABEL] = value_text(stack_label(result, places, p, site->node));
	return row[SITE_LABEL].text &&
	       profile_sizes(p, site->id, NULL, &result->arena, &sizes) == 0 &&
	       profile_lifetimes(p, site->id, NULL, &result->arena, &lifetimes) == 0 &&
	       bars_value(result, UNIT_SIZES, sizes, &row[SITE_SIZES]) &&
	       bars_value(result, UNIT_LIFETIMES, lifetimes, &row[SITE_LIFETIMES]) &&
	       realloc_value(result, &site->numbers.reallocs, &row[SITE_REALLOC]);
}

/* Says what the rows that are not shown amount to; heap and mappings are never added up. */
static bool say_left_out(struct result *result, const struct picked *rest, size_t count)
{
	uint64_t peak = 0, live[PROFILE_KINDS] = { 0 };
	struct words w = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct profile_site *site = rest[i].site;

		if (site->kind == PROFILE_HEAP)
			peak = saturating_add(peak, site->numbers.peak_bytes);
		live[site->kind] = saturating_add(live[site->kind], site->numbers.live_bytes);
	}
	words_add(&w, value_number(UNIT_COUNT, count));
	words_text(&w, count == 1 ? " more site: " : " more sites: ");
	words_add(&w, value_number(UNIT_BYTES, peak));
	words_text(&w, " at the peak, ");
	words_add(&w, value_number(UNIT_BYTES, live[PROFILE_HEAP]));
	words_text(&w, " leaked");
	if (live[PROFILE_MMAP]) {
		words_text(&w, "; mapped and not unmapped ");
		words_add(&w, value_number(UNIT_BYTES, live[PROFILE_MMAP]));
	}
	words_text(&w, " (--limit N shows more)");
	result->table.left_out = words_take(&w, &result->arena, &result->table.left_out_count);
	return result->table.left_out != NULL;
}

static bool fill_table(struct result *result, struct places *places, const struct picked *all,
		       size_t count, size_t limit)
{
	size_t rows = MIN(count, limit);
	struct result_column *shown = result_columns(result, columns, SITE_COLUMNS);
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, rows * SITE_COLUMNS);
	bool several = false, mapped = false;

	if (!shown || !values)
		return false;
	for (size_t i = 0; i < rows; i++) {
		if (!fill_row(result, places, &all[i], &values[i * SITE_COLUMNS]))
			return false;
		several |= all[i].process != all[0].process;
		mapped |= all[i].site->kind != PROFILE_HEAP;
	}
	/* A column that says the same in every row says nothing. */
	if (!several)
		shown[SITE_PROCESS].title = NULL;
	if (!mapped)
		shown[SITE_KIND].title = NULL;
	result->table = (struct result_table){ .name = "sites",
					       .shape = RESULT_TABLE,
					       .columns = shown,
					       .column_count = SITE_COLUMNS,
					       .values = values,
					       .row_count = rows };
	return count == rows || say_left_out(result, all + rows, count - rows);
}

static bool add_headline(struct result *result, const struct profile *profile, size_t sites)
{
	struct result_sentence *line = ARENA_NEW(&result->arena, struct result_sentence);
	struct words w = { 0 };

	words_text(&w, arena_printf(&result->arena, "%s  ", profile->command));
	if (profile->process_count == 1) {
		const struct profile_process *p = &profile->processes[0];

		words_text(&w, arena_printf(&result->arena, "%s  peak ", p->mode));
		words_add(&w, value_number(UNIT_BYTES, p->peak_bytes));
		words_text(&w, " at ");
		words_add(&w, value_number(UNIT_NS, p->peak_at_ns));
		words_text(&w, "  leaked ");
		words_add(&w, value_number(UNIT_BYTES, p->live_bytes));
	} else {
		words_add(&w, value_number(UNIT_COUNT, profile->process_count));
		words_text(&w, " processes, peak together ");
		words_add(&w, value_number(UNIT_BYTES, profile->peak_bytes));
	}
	words_text(&w, "  ");
	words_add(&w, value_number(UNIT_COUNT, sites));
	words_text(&w, " sites");
	if (!line)
		w.failed = true;
	size_t count;
	const struct result_value *values = words_take(&w, &result->arena, &count);

	if (!values)
		return false;
	*line = (struct result_sentence){ .values = values, .value_count = count };
	result->sentences = line;
	result->sentence_count = 1;
	return true;
}

struct result *analyse_sites(const struct profile *profile, struct places *places,
			     const struct query *query, struct error *error)
{
	size_t count = count_sites(profile);
	AUTO_FREE struct picked *all = pick_sites(profile, count);
	struct result *result = result_begin("sites", profile, query, 1);
	struct profile_notes unnamed = { 0 };

	if (!all || !result)
		goto fail;
	result_head_add(result, "site_count", value_number(UNIT_COUNT, count));
	if (!add_headline(result, profile, count) ||
	    !fill_table(result, places, all, count, query->limit) ||
	    names_notes(places_names(places), &result->arena, &unnamed) < 0 ||
	    !result_notes(result, profile, count ? NULL : NOTHING_RECORDED, unnamed))
		goto fail;
	return result;
fail:
	result_free(result);
	error_set(error, "out of memory");
	return NULL;
}
