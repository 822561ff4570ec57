/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `tree`: who called whom, from main down or, with --callees, from the allocating functions
 * up.
 *
 * Shown are the heaviest nodes that the threshold and the limit leave; whatever is not shown is in a
 * line of its own below its caller that says how many places it stands for and how much they hold.
 * So the numbers of a node's lines always add up to its own.
 */
#include <stdlib.h>

#include "analysis/build.h"
#include "analysis/call_tree.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/files.h"

enum tree_column {
	TREE_DEPTH,
	TREE_SHARE,
	TREE_TOTAL,
	TREE_SELF,
	TREE_BLOCKS,
	TREE_CALLS,
	TREE_NAME,
	TREE_FUNCTION,
	TREE_FILE,
	TREE_LINE,
	TREE_MODULE,
	TREE_INLINED,
	TREE_HIDDEN,
	TREE_COLUMNS,
};

struct grower {
	struct result *result;
	const struct query *query;
	const struct selection *selection;
	const struct call_tree *tree;
	uint64_t *weights; /* by node: the most that it or anything below it changes or holds */
	bool *shown;
	VECTOR(struct result_value) values;
	bool failed;
};

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static bool weigh(struct grower *g)
{
	const struct call_tree *t = g->tree;

	g->weights = calloc(t->count, sizeof *g->weights);
	g->shown = calloc(t->count, sizeof *g->shown);
	if (!g->weights || !g->shown)
		return false;
	for (size_t i = t->count; i > 0; i--) {
		const struct call_node *n = &t->nodes[i - 1];
		uint64_t own = magnitude(selection_cost(g->selection, &t->total[i - 1]));

		g->weights[i - 1] = MAX(g->weights[i - 1], own);
		g->weights[n->parent] = MAX(g->weights[n->parent], g->weights[i - 1]);
	}
	return true;
}

static int compare_weights(const void *left, const void *right, void *context)
{
	const uint64_t *weights = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (weights[a] != weights[b])
		return weights[a] < weights[b] ? 1 : -1;
	return a < b ? -1 : a > b; /* parents first */
}

/* A parent weighs at least as much as its child and comes before it: no shown node hangs in the air. */
static bool choose(struct grower *g)
{
	const struct query *q = g->query;
	double percent = q->has_threshold ? q->threshold_percent : 1.0;
	double least = percent / 100 * (double)g->weights[0];
	AUTO_FREE uint32_t *order = calloc(g->tree->count, sizeof *order);
	size_t count = 0;

	if (!order)
		return false;
	for (uint32_t i = 1; i < g->tree->count; i++)
		if (g->weights[i] && (double)g->weights[i] >= least &&
		    (!q->depth || g->tree->nodes[i].depth <= q->depth))
			order[count++] = i;
	if (count)
		qsort_r(order, count, sizeof *order, compare_weights, g->weights);
	for (size_t i = 0; i < count && i < q->limit; i++)
		g->shown[order[i]] = true;
	return true;
}

static const char *name_of(struct grower *g, const struct call_node *n)
{
	const struct result_frame *f = &n->place->frame;
	const char *inlined = f->inlined ? "  (inlined)" : "";
	struct arena *arena = &g->result->arena;

	switch (g->query->has_axis ? g->query->by : AXIS_FUNCTION) {
	case AXIS_MODULE:
		return f->module[0] ? path_base(f->module) : f->function;
	case AXIS_FILE:
		return f->file ? f->file : f->module;
	default:
		break;
	}
	if (!f->file)
		return n->place->nameless || !f->module[0]
			       ? f->function
			       : arena_printf(arena, "%s%s  %s", f->function, inlined,
					      path_base(f->module));
	if (n->many_lines || !f->line)
		return arena_printf(arena, "%s%s  %s", f->function, inlined, path_base(f->file));
	return arena_printf(arena, "%s%s  %s:%u", f->function, inlined, path_base(f->file),
			    f->line);
}

static void push_row(struct grower *g, const struct result_value row[TREE_COLUMNS])
{
	for (size_t i = 0; i < TREE_COLUMNS && !g->failed; i++)
		g->failed = !vector_push(&g->values, row[i]);
}

static void fill_numbers(struct grower *g, struct result_value row[TREE_COLUMNS],
			 const struct measures *total, const struct measures *self)
{
	const struct selection *s = g->selection;
	uint64_t whole = magnitude(selection_cost(s, &s->sum));

	row[TREE_SHARE] = value_percent(magnitude(selection_cost(s, total)), whole);
	row[TREE_TOTAL] = selection_value(s, total);
	row[TREE_SELF] = selection_value(s, self);
	row[TREE_BLOCKS] = selection_value_of(s, COST_BLOCKS, total);
	row[TREE_CALLS] = selection_value_of(s, COST_CALLS, total);
}

static void push_node(struct grower *g, uint32_t node)
{
	const struct call_node *n = &g->tree->nodes[node];
	const struct result_frame *f = &n->place->frame;
	struct result_value row[TREE_COLUMNS] = {
		[TREE_DEPTH] = value_number(UNIT_ID, n->depth),
		[TREE_NAME] = value_text(name_of(g, n)),
		[TREE_FUNCTION] = value_text(f->function),
		[TREE_FILE] = value_text(f->file),
		[TREE_LINE] = value_number(UNIT_ID, n->many_lines ? 0 : f->line),
		[TREE_MODULE] = value_text(f->module),
		[TREE_INLINED] = value_flag(f->inlined),
		[TREE_HIDDEN] = value_number(UNIT_COUNT, 0),
	};

	if (!row[TREE_NAME].text)
		g->failed = true;
	fill_numbers(g, row, &g->tree->total[node], &g->tree->self[node]);
	push_row(g, row);
}

/* The children that are not shown, in one line. */
static void push_hidden(struct grower *g, uint32_t depth, size_t count, const struct measures *sum)
{
	struct result_value row[TREE_COLUMNS] = {
		[TREE_DEPTH] = value_number(UNIT_ID, depth),
		[TREE_NAME] = value_text(arena_printf(
			&g->result->arena,
			count == 1 ? "in %zu place not shown" : "in %zu places not shown", count)),
		[TREE_FUNCTION] = value_text(NULL),
		[TREE_FILE] = value_text(NULL),
		[TREE_LINE] = value_number(UNIT_ID, 0),
		[TREE_MODULE] = value_text(NULL),
		[TREE_INLINED] = value_flag(false),
		[TREE_HIDDEN] = value_number(UNIT_COUNT, count),
	};

	if (!row[TREE_NAME].text)
		g->failed = true;
	fill_numbers(g, row, sum, &(struct measures){ 0 });
	push_row(g, row);
}

/* The shown children, heaviest first, into `order`; the others are added up. */
static size_t sort_children(struct grower *g, uint32_t node, uint32_t *order, size_t *ret_hidden,
			    struct measures *ret_sum)
{
	const struct call_tree *t = g->tree;
	size_t count = 0;

	*ret_hidden = 0;
	*ret_sum = (struct measures){ 0 };
	for (uint32_t c = t->nodes[node].first_child; c; c = t->nodes[c].next_sibling) {
		if (g->shown[c]) {
			order[count++] = c;
		} else if (g->weights[c]) {
			(*ret_hidden)++;
			measures_add(ret_sum, &t->total[c]);
		}
	}
	if (count > 1)
		qsort_r(order, count, sizeof *order, compare_weights, g->weights);
	return count;
}

/*
 * Preorder without recursion: a stack of calls may be deeper than ours. `todo` holds nodes, and with
 * the top bit set the line of a node's hidden children.
 */
static bool write_rows(struct grower *g)
{
	enum { HIDDEN_BIT = 31 };
	AUTO_FREE uint32_t *todo = calloc(g->tree->count * 2 + 1, sizeof *todo);
	AUTO_FREE uint32_t *order = calloc(g->tree->count, sizeof *order);
	size_t open = 0;

	if (!todo || !order)
		return false;
	todo[open++] = 0;
	while (open && !g->failed) {
		uint32_t at = todo[--open];
		bool hidden_line = at >> HIDDEN_BIT;
		uint32_t node = at & ~(UINT32_C(1) << HIDDEN_BIT);
		size_t hidden;
		struct measures sum;
		size_t count = sort_children(g, node, order, &hidden, &sum);

		if (hidden_line) {
			push_hidden(g, g->tree->nodes[node].depth + 1, hidden, &sum);
			continue;
		}
		if (node)
			push_node(g, node);
		if (hidden)
			todo[open++] = node | UINT32_C(1) << HIDDEN_BIT;
		for (size_t i = count; i > 0; i--)
			todo[open++] = order[i - 1];
	}
	return !g->failed;
}

static bool fill_table(struct grower *g)
{
	struct result *r = g->result;
	const struct selection *s = g->selection;
	const struct cost_row *cost = &cost_rows[s->cost];
	bool moment = cost->of_moment;
	const struct result_column columns[TREE_COLUMNS] = {
		[TREE_DEPTH] = { "depth", NULL, UNIT_ID },
		[TREE_SHARE] = { NULL, s->against ? NULL : title_of(r, s->share_title),
				 UNIT_PERCENT },
		[TREE_TOTAL] = { cost->key, title_of(r, s->title), cost_unit(s->cost, s->change) },
		[TREE_SELF] = { "self", NULL, cost_unit(s->cost, s->change) },
		[TREE_BLOCKS] = { s->cost == COST_BLOCKS ? NULL : "live_blocks",
				  moment && s->cost != COST_BLOCKS ? "BLOCKS" : NULL,
				  cost_unit(COST_BLOCKS, s->change) },
		[TREE_CALLS] = { s->cost == COST_CALLS ? NULL : "calls",
				 !moment && s->cost != COST_CALLS ? "CALLS" : NULL,
				 cost_unit(COST_CALLS, s->against != NULL) },
		[TREE_NAME] = { NULL, "", UNIT_TEXT },
		[TREE_FUNCTION] = { "function", NULL, UNIT_TEXT },
		[TREE_FILE] = { "file", NULL, UNIT_TEXT },
		[TREE_LINE] = { "line", NULL, UNIT_ID },
		[TREE_MODULE] = { "module", NULL, UNIT_TEXT },
		[TREE_INLINED] = { "inlined", NULL, UNIT_FLAG },
		[TREE_HIDDEN] = { "hidden", NULL, UNIT_COUNT },
	};
	size_t cells = g->values.count;

	r->table = (struct result_table){
		.name = "tree",
		.shape = RESULT_TREE,
		.columns = arena_copy(&r->arena, columns, sizeof columns),
		.column_count = TREE_COLUMNS,
		.values = arena_copy(&r->arena, g->values.at, cells * sizeof *g->values.at),
		.row_count = cells / TREE_COLUMNS,
	};
	return r->table.columns && r->table.values;
}

static bool grow(struct grower *g, const struct profile *profile, struct places *places)
{
	bool done = weigh(g) && choose(g) && write_rows(g) && fill_table(g) &&
		    selection_headline(g->result, profile, g->query, g->selection) &&
		    selection_notes(g->result, profile, places, g->selection);

	free(g->weights);
	free(g->shown);
	vector_release(&g->values);
	return done;
}

struct result *analyse_tree(const struct profile *profile, struct places *places,
			    const struct query *query, struct error *error)
{
	enum axis_id by = query->has_axis ? query->by : AXIS_FUNCTION;
	AUTO(selection_release) struct selection selection = { 0 };
	AUTO(call_tree_release) struct call_tree tree = { 0 };
	struct grower g = { .query = query, .selection = &selection, .tree = &tree };

	if (!axis_rows[by].of_frames) {
		error_set(error, "a tree is made of frames: --by function, line, file or module");
		return NULL;
	}
	if (selection_make(&selection, profile, places, query,
			   (struct ask){ .cost = COST_LIVE, .at = MOMENT_PEAK }, error) < 0)
		return NULL;
	g.result = result_begin("tree", profile, query, SELECTION_FIELDS);
	if (g.result && selection_fields(g.result, &selection) &&
	    call_tree_build(&tree, &selection, places,
			    (struct call_tree_options){ by, query->callees_first,
							query->fold_recursion, NULL }) == 0 &&
	    grow(&g, profile, places))
		return g.result;
	result_free(g.result);
	error_set(error, "out of memory");
	return NULL;
}
