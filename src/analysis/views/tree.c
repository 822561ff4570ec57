/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `tree`: the call tree, from main down or, with --callees, from the allocating functions
 * up.
 *
 * Shows the heaviest nodes within the threshold and the limit; omitted children are one line below
 * their caller, with their number and sum. So the lines below a node always add up to its total.
 * Frames of libraries around the project's own code are left out.
 */
#include "analysis/result/build.h"
#include "analysis/query/pruned_tree.h"
#include "base/checked.h"
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
	const struct pruned_tree *tree;
	VECTOR(struct result_value) values;
	bool failed;
};

static struct stack_amount amount_of(const struct selection *s, const struct entry *e)
{
	return stack_amount_of_measures(s, &e->m);
}

static const char *name_of(struct grower *g, const struct pruned_node *n)
{
	const struct result_frame *f = &n->location->frame;
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
		return n->location->nameless || !f->module[0]
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
			 const struct stack_amount *total, int64_t self, float self_variance)
{
	const struct selection *s = g->selection;

	row[TREE_SHARE] = value_percent(magnitude(selection_shown(s, s->cost, total->value)),
					selection_magnitude(s, &s->sum));
	row[TREE_TOTAL] = stack_amount_value(s, total);
	row[TREE_SELF] = selection_number(s, s->cost, self, self_variance);
	row[TREE_BLOCKS] = stack_amount_also(s, total, ALSO_BLOCKS);
	row[TREE_CALLS] = stack_amount_also(s, total, ALSO_CALLS);
}

static void push_node(struct grower *g, const struct pruned_node *n)
{
	const struct result_frame *f = &n->location->frame;
	struct result_value row[TREE_COLUMNS] = {
		[TREE_DEPTH] = value_id(n->depth),
		[TREE_NAME] = value_text(name_of(g, n)),
		[TREE_FUNCTION] = value_text(f->function),
		[TREE_FILE] = value_text(f->file),
		[TREE_LINE] = value_id(n->many_lines ? 0 : f->line),
		[TREE_MODULE] = value_text(f->module),
		[TREE_INLINED] = value_flag(f->inlined),
		[TREE_HIDDEN] = value_count(0),
	};

	if (!row[TREE_NAME].text)
		g->failed = true;
	fill_numbers(g, row, &n->amount, n->self, n->self_variance);
	push_row(g, row);
}

/* The omitted children, in one line. */
static void push_hidden(struct grower *g, const struct pruned_node *n)
{
	struct result_value row[TREE_COLUMNS] = {
		[TREE_DEPTH] = value_id(n->depth + 1),
		[TREE_NAME] = value_text(
			arena_printf(&g->result->arena,
				     n->folded_count == 1 ? "in %u place not shown (--threshold)"
							  : "in %u places not shown (--threshold)",
				     n->folded_count)),
		[TREE_FUNCTION] = value_text(NULL),
		[TREE_FILE] = value_text(NULL),
		[TREE_LINE] = value_id(0),
		[TREE_MODULE] = value_text(NULL),
		[TREE_INLINED] = value_flag(false),
		[TREE_HIDDEN] = value_count(n->folded_count),
	};

	if (!row[TREE_NAME].text)
		g->failed = true;
	fill_numbers(g, row, &n->folded, 0, 0);
	push_row(g, row);
}

static void visit(void *context, uint32_t node, bool leaves)
{
	struct grower *g = context;
	const struct pruned_node *n = &g->tree->nodes[node];

	if (leaves && n->folded_count)
		push_hidden(g, n);
	else if (!leaves && node)
		push_node(g, n);
}

static bool describe_skipped(struct grower *g)
{
	struct result_table *table = &g->result->table;
	struct words w = { 0 };

	if (!g->tree->skipped)
		return true;
	words_text(&w, "frames of libraries around own code are left out (--no-own shows them)");
	table->left_out = words_take(&w, &g->result->arena, &table->left_out_count);
	return table->left_out != NULL;
}

static bool fill_table(struct grower *g)
{
	struct result *r = g->result;
	const struct selection *s = g->selection;
	const struct cost_row *cost = &cost_rows[s->cost];
	bool moment = cost->time == COST_OF_MOMENT;
	enum cost_id also = s->also[ALSO_BLOCKS];
	const struct result_column columns[TREE_COLUMNS] = {
		[TREE_DEPTH] = { "depth", NULL, UNIT_ID },
		[TREE_SHARE] = { NULL, s->against ? NULL : title_of(r, s->share_title),
				 UNIT_PERCENT },
		[TREE_TOTAL] = { cost->key, title_of(r, s->title), selection_unit(s, s->cost) },
		[TREE_SELF] = { "self", NULL, selection_unit(s, s->cost) },
		[TREE_BLOCKS] = { s->cost == also ? NULL : cost_rows[also].key,
				  s->second_title		     ? title_of(r, s->second_title)
				  : moment && s->cost != COST_BLOCKS ? "BLOCKS"
								     : NULL,
				  selection_unit(s, also) },
		[TREE_CALLS] = { s->cost == COST_CALLS || also == COST_CALLS ? NULL : "calls",
				 !moment && !s->second_title && s->cost != COST_CALLS ? "CALLS"
										      : NULL,
				 cost_unit(COST_CALLS, s->against != NULL) },
		[TREE_NAME] = { NULL, "", UNIT_TEXT },
		[TREE_FUNCTION] = { "function", NULL, UNIT_TEXT },
		[TREE_FILE] = { "file", NULL, UNIT_TEXT },
		[TREE_LINE] = { "line", NULL, UNIT_ID },
		[TREE_MODULE] = { "module", NULL, UNIT_TEXT },
		[TREE_INLINED] = { "inlined", NULL, UNIT_FLAG },
		[TREE_HIDDEN] = { "hidden", NULL, UNIT_COUNT },
	};
	bool done = result_take(r, "tree", columns, TREE_COLUMNS, g->values.count / TREE_COLUMNS,
				g->values.at);

	r->table.shape = RESULT_TREE;
	return done && describe_skipped(g);
}

static bool grow(struct grower *g, const struct profile *profile, struct locations *locations)
{
	pruned_tree_walk(g->tree, visit, g);
	bool done = !g->failed && fill_table(g) &&
		    selection_headline(g->result, profile, g->query, g->selection) &&
		    selection_notes(g->result, profile, locations, g->selection);

	vector_release(&g->values);
	return done;
}

struct result *analyse_tree(const struct profile *profile, struct locations *locations,
			    const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection selection = { 0 };
	AUTO(pruned_tree_release) struct pruned_tree tree = { 0 };
	struct grower g = { .query = query, .selection = &selection, .tree = &tree };
	struct pruned_options options;

	if (pruned_options_of(query, amount_of, 1.0, &options, error) < 0 ||
	    selection_make(&selection, profile, locations, query,
			   (struct view_defaults){ .cost = COST_LIVE, .at = MOMENT_PEAK },
			   error) < 0)
		return NULL;
	options.own_code_first = own_code_can_lead(profile, options.by);
	g.result = result_begin("tree", profile, query, SELECTION_FIELDS);
	return result_end(g.result,
			  g.result && selection_fields(g.result, &selection) &&
				  pruned_tree_grow(&tree, &selection, locations, options) == 0 &&
				  grow(&g, profile, locations),
			  error);
}
