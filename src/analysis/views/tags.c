/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `tags`: the tags set by the program, as a tree.
 *
 * `self` is what was allocated while a tag was innermost, `total` includes nested tags. Untagged memory is a row of its own,
 * so that the first level adds up to the whole. Visits are of the tag itself; bytes per visit include nested tags, since the
 * visit caused them.
 *
 * Text output shows the heaviest tags within the limit and the depth; machine formats have all.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/tag_tree.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

/* The cost defines the title and unit of the value, and the title of the share. */
#define TAGS_COLUMN_LIST(X)                                                                        \
	X(TAGS_DEPTH, "depth", NULL, UNIT_ID)                                                      \
	X(TAGS_SHARE, NULL, "", UNIT_PERCENT)                                                      \
	X(TAGS_VALUE, "value", "", UNIT_BYTES)                                                     \
	X(TAGS_SELF_VALUE, "self", "SELF", UNIT_BYTES)                                             \
	X(TAGS_VISITS, "visits", "VISITS", UNIT_COUNT)                                             \
	X(TAGS_TOTAL, "total_bytes", "TOTAL", UNIT_BYTES)                                          \
	X(TAGS_PER_VISIT, "bytes_per_visit", "PER VISIT", UNIT_BYTES)                              \
	X(TAGS_CALLS, "calls", "CALLS", UNIT_COUNT)                                                \
	X(TAGS_SELF_TOTAL, "self_total_bytes", NULL, UNIT_BYTES)                                   \
	X(TAGS_SELF_PER_VISIT, "self_bytes_per_visit", NULL, UNIT_BYTES)                           \
	X(TAGS_SELF_CALLS, "self_calls", NULL, UNIT_COUNT)                                         \
	X(TAGS_REALLOCS, "realloc_calls", NULL, UNIT_COUNT)                                        \
	X(TAGS_SELF_REALLOCS, "self_realloc_calls", NULL, UNIT_COUNT)                              \
	X(TAGS_FREES, "frees", NULL, UNIT_COUNT)                                                   \
	X(TAGS_SELF_FREES, "self_frees", NULL, UNIT_COUNT)                                         \
	X(TAGS_FREED, "freed_bytes", NULL, UNIT_BYTES)                                             \
	X(TAGS_SELF_FREED, "self_freed_bytes", NULL, UNIT_BYTES)                                   \
	X(TAGS_PEAK, "peak_bytes", NULL, UNIT_BYTES)                                               \
	X(TAGS_SELF_PEAK, "self_peak_bytes", NULL, UNIT_BYTES)                                     \
	X(TAGS_LEAKED, "not_freed_bytes", NULL, UNIT_BYTES)                                        \
	X(TAGS_SELF_LEAKED, "self_not_freed_bytes", NULL, UNIT_BYTES)                              \
	X(TAGS_NAME, "name", NULL, UNIT_TEXT)                                                      \
	X(TAGS_LABEL, NULL, "TAG", UNIT_TEXT)                                                      \
	X(TAGS_PATH, "tag", NULL, UNIT_TEXT)                                                       \
	X(TAGS_KIND, "kind", NULL, UNIT_TEXT)                                                      \
	X(TAGS_HIDDEN, "hidden", NULL, UNIT_COUNT)
enum tags_column { TAGS_COLUMN_LIST(COLUMN_ID) TAGS_COLUMNS };

struct tags_maker {
	struct result *result;
	const struct query *query;
	const struct selection *selection;
	struct tag_tree tree;
	uint64_t *weights; /* by node: the largest cost or change in its subtree */
	bool *shown;
	VECTOR(struct result_value) values;
	bool failed;
};

static int compare_weights(const void *left, const void *right, void *context)
{
	const struct tags_maker *t = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (t->weights[a] != t->weights[b])
		return t->weights[a] < t->weights[b] ? 1 : -1;
	return a < b ? -1 : a > b; /* parents first */
}

/* A parent weighs at least as much as its child and sorts before it, so every shown tag has its parent shown. */
static bool choose(struct tags_maker *t)
{
	size_t count = t->tree.count, kept = 0;
	AUTO_FREE uint32_t *order = calloc(count, sizeof *order);
	size_t depth = t->query->depth ? t->query->depth : SIZE_MAX;

	t->weights = calloc(count, sizeof *t->weights);
	t->shown = calloc(count, sizeof *t->shown);
	if (!order || !t->weights || !t->shown)
		return false;
	for (size_t i = count; i > 1; i--) {
		const struct tag_node *n = &t->tree.nodes[i - 1];

		t->weights[i - 1] =
			MAX(t->weights[i - 1], selection_magnitude(t->selection, &n->total.m));
		t->weights[n->parent] = MAX(t->weights[n->parent], t->weights[i - 1]);
	}
	for (uint32_t i = 1; i < count; i++)
		if (t->tree.nodes[i].depth <= depth)
			order[kept++] = i;
	if (kept)
		qsort_r(order, kept, sizeof *order, compare_weights, t);
	for (size_t i = 0; i < kept && i < t->query->limit; i++)
		t->shown[order[i]] = true;
	return true;
}

static struct result_value count_of(int64_t number, double variance)
{
	return value_estimate(value_count(number > 0 ? (uint64_t)number : 0), variance);
}

static struct result_value bytes_of(uint64_t number, double variance)
{
	return value_estimate(value_bytes(number), variance);
}

/* Visits are exact counts in every mode. */
static struct result_value per_visit(const struct measures *m, uint64_t visits)
{
	double times = (double)visits;

	return visits ? bytes_of(cost_value(COST_TOTAL, m, 0, false).number / visits,
				 m->variance.total_bytes / (times * times))
		      : value_unknown();
}

static void push(struct tags_maker *t, const struct tag_numbers *total,
		 const struct tag_numbers *self, struct result_value row[TAGS_COLUMNS])
{
	const struct selection *s = t->selection;

	row[TAGS_SHARE] =
		value_percent(selection_magnitude(s, &total->m), selection_magnitude(s, &s->sum));
	row[TAGS_VALUE] = selection_value(s, &total->m);
	row[TAGS_SELF_VALUE] = selection_value(s, &self->m);
	row[TAGS_TOTAL] = cost_value(COST_TOTAL, &total->m, 0, false);
	row[TAGS_SELF_TOTAL] = cost_value(COST_TOTAL, &self->m, 0, false);
	row[TAGS_CALLS] = cost_value(COST_CALLS, &total->m, 0, false);
	row[TAGS_SELF_CALLS] = cost_value(COST_CALLS, &self->m, 0, false);
	row[TAGS_REALLOCS] = count_of(total->m.realloc_calls, total->m.variance.realloc_calls);
	row[TAGS_SELF_REALLOCS] = count_of(self->m.realloc_calls, self->m.variance.realloc_calls);
	row[TAGS_FREES] = count_of(total->m.frees, total->m.variance.frees);
	row[TAGS_SELF_FREES] = count_of(self->m.frees, self->m.variance.frees);
	row[TAGS_FREED] = bytes_of(total->freed_bytes, total->freed_variance);
	row[TAGS_SELF_FREED] = bytes_of(self->freed_bytes, self->freed_variance);
	row[TAGS_PEAK] = bytes_of(total->peak_bytes, total->peak_variance);
	row[TAGS_SELF_PEAK] = bytes_of(self->peak_bytes, self->peak_variance);
	row[TAGS_LEAKED] = bytes_of(total->leaked_bytes, total->leaked_variance);
	row[TAGS_SELF_LEAKED] = bytes_of(self->leaked_bytes, self->leaked_variance);
	for (size_t i = 0; i < TAGS_COLUMNS && !t->failed; i++)
		t->failed = !vector_push(&t->values, row[i]);
}

static void push_tag(struct tags_maker *t, uint32_t node)
{
	const struct tag_node *n = &t->tree.nodes[node];
	const char *path = tag_tree_path(&t->tree, node, &t->result->arena);
	struct result_value row[TAGS_COLUMNS] = {
		[TAGS_DEPTH] = value_id(n->depth),
		[TAGS_VISITS] = value_count(n->visits),
		[TAGS_PER_VISIT] = per_visit(&n->total.m, n->visits),
		[TAGS_SELF_PER_VISIT] = per_visit(&n->self.m, n->visits),
		[TAGS_NAME] = value_text(n->name),
		[TAGS_LABEL] = value_text(n->name),
		[TAGS_PATH] = value_text(path),
		[TAGS_KIND] = value_text(profile_tag_kind_name(n->kind)),
		[TAGS_HIDDEN] = value_count(0),
	};

	if (!path)
		t->failed = true;
	push(t, &n->total, &n->self, row);
}

/* A row that is not a tag: untagged memory, or hidden tags. */
static void push_other(struct tags_maker *t, uint32_t depth, const char *label, size_t hidden,
		       const struct tag_numbers *numbers)
{
	struct result_value row[TAGS_COLUMNS] = {
		[TAGS_DEPTH] = value_id(depth),	     [TAGS_VISITS] = value_unknown(),
		[TAGS_PER_VISIT] = value_unknown(),  [TAGS_SELF_PER_VISIT] = value_unknown(),
		[TAGS_NAME] = value_text(NULL),	     [TAGS_LABEL] = value_text(label),
		[TAGS_PATH] = value_text(NULL),	     [TAGS_KIND] = value_text(NULL),
		[TAGS_HIDDEN] = value_count(hidden),
	};

	if (!label)
		t->failed = true;
	push(t, numbers, numbers, row);
}

/* Writes the shown children, heaviest first, to `order`, and sums the others. */
static size_t sort_children(struct tags_maker *t, uint32_t node, uint32_t *order,
			    size_t *ret_hidden, struct tag_numbers *ret_sum)
{
	const struct tag_tree *tree = &t->tree;
	size_t count = 0;

	*ret_hidden = 0;
	*ret_sum = (struct tag_numbers){ 0 };
	for (uint32_t c = tree->nodes[node].first_child; c; c = tree->nodes[c].next_sibling) {
		if (t->shown[c]) {
			order[count++] = c;
		} else {
			(*ret_hidden)++;
			tag_numbers_add(ret_sum, &tree->nodes[c].total);
		}
	}
	if (count > 1)
		qsort_r(order, count, sizeof *order, compare_weights, t);
	return count;
}

/* Preorder without recursion. `todo` holds nodes; the top bit marks the row for a node's hidden children. */
static bool write_rows(struct tags_maker *t)
{
	enum { HIDDEN_BIT = 31 };
	AUTO_FREE uint32_t *todo = calloc(t->tree.count * 2 + 1, sizeof *todo);
	AUTO_FREE uint32_t *order = calloc(t->tree.count, sizeof *order);
	size_t open = 0;

	if (!todo || !order)
		return false;
	todo[open++] = 0;
	while (open && !t->failed) {
		uint32_t at = todo[--open], node = at & ~(UINT32_C(1) << HIDDEN_BIT);
		size_t hidden;
		struct tag_numbers sum;
		size_t count = sort_children(t, node, order, &hidden, &sum);

		if (at >> HIDDEN_BIT) {
			push_other(t, t->tree.nodes[node].depth + 1,
				   arena_printf(&t->result->arena,
						hidden == 1 ? "%zu tag not shown"
							    : "%zu tags not shown",
						hidden),
				   hidden, &sum);
			continue;
		}
		if (node)
			push_tag(t, node);
		if (hidden)
			todo[open++] = node | UINT32_C(1) << HIDDEN_BIT;
		for (size_t i = count; i > 0; i--)
			todo[open++] = order[i - 1];
	}
	if (t->tree.nodes[0].self.m.calls || t->tree.nodes[0].self.m.frees)
		push_other(t, 1, "(no tag)", 0, &t->tree.nodes[0].self);
	return !t->failed;
}

static bool fill_table(struct tags_maker *t)
{
	struct result *r = t->result;
	const struct selection *s = t->selection;
	struct result_column columns[] = { TAGS_COLUMN_LIST(COLUMN_ROW) };

	columns[TAGS_SHARE].title = title_of(r, s->share_title);
	columns[TAGS_VALUE].title = title_of(r, s->title);
	columns[TAGS_VALUE].unit = columns[TAGS_SELF_VALUE].unit = selection_unit(s, s->cost);
	if (s->cost == COST_TOTAL)
		columns[TAGS_TOTAL].title = NULL;
	if (s->cost == COST_CALLS)
		columns[TAGS_CALLS].title = NULL;
	bool done = result_take(r, "tags", columns, TAGS_COLUMNS, t->values.count / TAGS_COLUMNS,
				t->values.at);

	r->table.shape = RESULT_TREE;
	return done;
}

static bool any_tag(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile_tag_count(&profile->processes[i]) > 1)
			return true;
	return false;
}

static bool say(struct tags_maker *t, const struct profile *profile)
{
	struct sentences sentences = { .result = t->result };
	struct words none = { 0 };

	selection_describe(&sentences, t->query, t->selection);
	if (!any_tag(profile)) {
		words_text(&none, "none: the program names what it does by HG_SCOPE(\"name\") of "
				  "<heapgauge/heapgauge.h>");
		sentences_add(&sentences, "tags", &none, NULL);
	}
	return sentences_end(&sentences);
}

static bool make(struct tags_maker *t, const struct profile *profile, struct locations *locations)
{
	bool done = tag_tree_build(&t->tree, t->selection, t->query) == 0 && choose(t) &&
		    write_rows(t) && fill_table(t) && say(t, profile) &&
		    selection_notes(t->result, profile, locations, t->selection);

	tag_tree_release(&t->tree);
	free(t->weights);
	free(t->shown);
	vector_release(&t->values);
	return done;
}

struct result *analyse_tags(const struct profile *profile, struct locations *locations,
			    const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection selection = { 0 };
	struct tags_maker t = { .query = query, .selection = &selection };

	if (query->has_axis && query->by != AXIS_TAG) {
		error_set(error, "the view tags groups by tag: use --view functions for --by %s",
			  axis_rows[query->by].name);
		return NULL;
	}
	if (selection_make(&selection, profile, locations, query,
			   (struct view_defaults){ .cost = COST_LIVE, .at = MOMENT_PEAK },
			   error) < 0)
		return NULL;
	t.result = result_begin("tags", profile, query, SELECTION_FIELDS);
	return result_end(t.result,
			  t.result && selection_fields(t.result, &selection) &&
				  make(&t, profile, locations),
			  error);
}
