/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `pools`: one row per custom allocator, that is per pool name and process, with its live bytes, their maximum, and
 * the total allocated from it. Filters on stacks and threads exclude blocks; the maximum is known only for whole pools, and is
 * then not shown.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/intern.h"

#define POOL_COLUMN_LIST(X)                                                                        \
	X(POOL_NAME, "pool", "POOL", UNIT_TEXT)                                                    \
	X(POOL_PROCESS, "pid", "PID", UNIT_ID)                                                     \
	X(POOL_LIVE, "live_bytes", "LIVE", UNIT_BYTES)                                             \
	X(POOL_BLOCKS, "live_blocks", "BLOCKS", UNIT_COUNT)                                        \
	X(POOL_MOST, "max_bytes", "MOST", UNIT_BYTES)                                              \
	X(POOL_AT_PEAK, "peak_bytes", "AT PEAK", UNIT_BYTES)                                       \
	X(POOL_TOTAL, "total_bytes", "TOTAL", UNIT_BYTES)                                          \
	X(POOL_CALLS, "calls", "CALLS", UNIT_COUNT)                                                \
	X(POOL_FREES, "frees", NULL, UNIT_COUNT)                                                   \
	X(POOL_COUNT, "pools", "POOLS", UNIT_COUNT)
enum pool_column { POOL_COLUMN_LIST(COLUMN_ID) POOL_COLUMNS };

struct pool_row {
	const struct profile_process *process;
	const char *name;
	uint64_t pools, most_bytes;
	int64_t cost; /* sort key */
	struct site_numbers sums;
};

struct pools_view {
	struct result *result;
	const struct profile *profile;
	const struct selection *selection;
	struct intern known; /* process and name -> row + 1 */
	VECTOR(struct pool_row) rows;
};

static struct pool_row *row_of(struct pools_view *v, const struct profile_process *p,
			       const char *name)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	char *key = arena_printf(&scratch, "%zu %s", (size_t)(p - v->profile->processes), name);
	struct intern_entry *entry =
		key ? intern_entry(&v->known, span_of(key, strlen(key))) : NULL;

	if (!entry)
		return NULL;
	if (!entry->value) {
		if (!vector_push(&v->rows, ((struct pool_row){ .process = p, .name = name })))
			return NULL;
		entry->value = (void *)(uintptr_t)v->rows.count;
	}
	return &v->rows.at[(uintptr_t)entry->value - 1];
}

static bool add_entry(struct pools_view *v, const struct entry *e)
{
	struct site_numbers n = selection_numbers(v->selection, e);
	struct pool_row *row = row_of(v, e->process, profile_tag_pool(e->process, e->site->tag));

	if (!row)
		return false;
	row->cost = saturating_add_signed(row->cost, selection_cost(v->selection, &e->m));
	estimates_add(&row->sums, &n);
	return true;
}

/* Adds what is known for the whole name; a pool without allocations has no row. */
static void add_names(struct pools_view *v, const struct profile_process *p)
{
	for (uint32_t i = 1; i < profile_tag_count(p); i++) {
		struct profile_tag tag = profile_tag(p, (tag_id){ i });

		for (size_t j = 0; tag.pools && j < v->rows.count; j++) {
			struct pool_row *row = &v->rows.at[j];

			if (row->process == p && strcmp(row->name, tag.name) == 0) {
				row->pools = tag.pools;
				row->most_bytes = tag.most_bytes;
			}
		}
	}
}

static int compare_rows(const void *left, const void *right)
{
	const struct pool_row *a = left, *b = right;

	if (a->cost != b->cost)
		return a->cost < b->cost ? 1 : -1;
	if (a->sums.bytes != b->sums.bytes)
		return a->sums.bytes < b->sums.bytes ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool collect(struct pools_view *v)
{
	const struct selection *s = v->selection;

	for (size_t i = 0; i < s->count; i++)
		if (!add_entry(v, &s->entries[i]))
			return false;
	for (size_t i = 0; i < v->profile->process_count; i++)
		add_names(v, &v->profile->processes[i]);
	if (v->rows.count)
		qsort(v->rows.at, v->rows.count, sizeof *v->rows.at, compare_rows);
	return true;
}

static bool fill_row(void *context, size_t index, struct result_value *to)
{
	const struct pools_view *v = context;
	const struct pool_row *row = &v->rows.at[index];
	const struct site_numbers *n = &row->sums;

	to[POOL_NAME] = value_text(*row->name ? row->name : "(no pool)");
	to[POOL_PROCESS] = value_id(row->process->pid);
	to[POOL_LIVE] = value_part(UNIT_BYTES, n->live_bytes, VARIANCE_LIVE_BYTES, n);
	to[POOL_BLOCKS] = value_part(UNIT_COUNT, n->live_blocks, VARIANCE_LIVE_BLOCKS, n);
	to[POOL_MOST] = v->selection->filtered
				? value_unknown()
				: value_part(UNIT_BYTES, row->most_bytes, VARIANCE_BYTES, n);
	to[POOL_AT_PEAK] = value_part(UNIT_BYTES, n->peak_bytes, VARIANCE_PEAK_BYTES, n);
	to[POOL_TOTAL] = value_part(UNIT_BYTES, n->bytes, VARIANCE_BYTES, n);
	to[POOL_CALLS] = value_part(UNIT_COUNT, n->calls, VARIANCE_CALLS, n);
	to[POOL_FREES] = value_part(UNIT_COUNT, n->frees, VARIANCE_FREES, n);
	to[POOL_COUNT] = value_count(row->pools);
	if (n->has_remote_frees)
		to[POOL_AT_PEAK] = value_unknown();
	if (n->live_unknown)
		to[POOL_LIVE] = to[POOL_BLOCKS] = to[POOL_FREES] = value_unknown();
	return true;
}

static bool fill_table(struct pools_view *v, size_t limit)
{
	struct result_column columns[] = { POOL_COLUMN_LIST(COLUMN_ROW) };
	size_t shown = MIN(v->rows.count, limit);

	if (v->profile->process_count == 1)
		columns[POOL_PROCESS].title = NULL;
	return result_fill(v->result, "pools", columns, POOL_COLUMNS, shown, fill_row, v) &&
	       result_left_out(v->result, v->rows.count - shown, " more pool", " more pools");
}

static bool say(struct pools_view *v, const struct query *query)
{
	struct sentences sentences = { .result = v->result };
	struct words none = { 0 };

	selection_describe(&sentences, query, v->selection);
	if (v->rows.count == 0) {
		words_text(
			&none,
			"none: the program can report its custom allocators by hg_pool_new and hg_pool_alloc of "
			"<heapgauge/heapgauge.h>, or heapgauge record can wrap them by --wrap");
		sentences_add(&sentences, "pools", &none, NULL);
	}
	return sentences_end(&sentences);
}

struct result *analyse_pools(const struct profile *profile, struct locations *locations,
			     const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection selection = { 0 };
	struct pools_view v = { .profile = profile, .selection = &selection };
	struct query of_pools = *query;

	of_pools.kinds = KINDS_POOL;
	if (query->against) {
		error_set(error, "the view pools is of one recording: compare by --by pool");
		return NULL;
	}
	if (selection_make(&selection, profile, locations, &of_pools,
			   (struct view_defaults){ .cost = COST_LIVE, .at = MOMENT_END },
			   error) < 0)
		return NULL;
	v.result = result_begin("pools", profile, query, SELECTION_FIELDS);
	bool done = v.result && selection_fields(v.result, &selection) && collect(&v) &&
		    fill_table(&v, query->limit) && say(&v, &of_pools) &&
		    selection_notes(v.result, profile, locations, &selection);

	intern_release(&v.known);
	vector_release(&v.rows);
	return result_end(v.result, done, error);
}
