/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `flame`: the call tree for a flame graph, with as many nodes as can be drawn.
 *
 * It is the tree of the view `tree` (pruned_tree.h) with one array per field, because a row of values per node would
 * be a hundred times as large. The omitted children of a node are one nameless child, so a node's value is always its
 * self plus its children's. In a comparison, unchanged nodes are included too.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/comparison.h"
#include "analysis/query/pruned_tree.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

enum { BEFORE }; /* index into stack_amount.also */

struct flame {
	const struct query *query;
	const struct selection *selection;
	const struct pruned_tree *tree;
	/* The result's arrays, being filled. */
	struct result_frame *names;
	uint32_t *name_of_key; /* name index + 1; 0: none yet */
	size_t name_count;
	int32_t *lines; /* by node of the tree: its index in the arrays */
	int32_t *name, *parent;
	int64_t *value, *self, *before;
	float *value_error, *self_error; /* NULL: all numbers are exact */
	size_t count;
};

static struct stack_amount amount_of(const struct selection *s, const struct entry *e)
{
	struct stack_amount a = { .value = selection_raw(s->cost, &e->m) };

	a.weight = magnitude(a.value);
	a.variance = (float)selection_raw_variance(s->cost, &e->m);
	if (s->against) {
		a.also[BEFORE] = comparison_of(s, e).before;
		int64_t after =
			saturating_add_signed(a.also[BEFORE], selection_shown(s, s->cost, a.value));

		a.weight = MAX(magnitude(a.also[BEFORE]), magnitude(after));
	}
	return a;
}

/* Returns the index of the key's name; a name shared by several lines has no line. */
static int32_t name_of(struct flame *f, const struct pruned_node *n)
{
	uint32_t known = f->name_of_key[n->key];

	if (!known) {
		known = f->name_of_key[n->key] = (uint32_t)f->name_count + 1;
		f->names[f->name_count++] = n->location->frame;
	}
	struct result_frame *name = &f->names[known - 1];

	if (n->many_lines || name->line != n->location->frame.line)
		name->line = 0;
	name->inlined &= n->location->frame.inlined;
	return (int32_t)known - 1;
}

static void push(struct flame *f, int32_t name, int32_t parent, const struct stack_amount *amount,
		 int64_t self, float self_variance)
{
	size_t at = f->count++;

	f->name[at] = name;
	f->parent[at] = parent;
	f->value[at] = selection_shown(f->selection, f->selection->cost, amount->value);
	f->self[at] = selection_shown(f->selection, f->selection->cost, self);
	if (f->before)
		f->before[at] = amount->also[BEFORE];
	if (f->value_error) {
		f->value_error[at] = (float)selection_shown_error(f->selection, f->selection->cost,
								  amount->variance);
		f->self_error[at] = (float)selection_shown_error(f->selection, f->selection->cost,
								 self_variance);
	}
}

/* Emits a node before its children, and after them one node for the omitted ones. */
static void visit(void *context, uint32_t node, bool leaves)
{
	struct flame *f = context;
	const struct pruned_node *n = &f->tree->nodes[node];

	if (leaves && n->folded_count) {
		push(f, -1, f->lines[node], &n->folded, n->folded.value, n->folded.variance);
	} else if (!leaves) {
		f->lines[node] = node ? (int32_t)f->count : -1;
		if (node)
			push(f, name_of(f, n), f->lines[n->parent], &n->amount, n->self,
			     n->self_variance);
	}
}

static bool fill_table(struct flame *f, struct result *r)
{
	struct arena *arena = &r->arena;
	size_t most = f->tree->count * 2; /* each may have omitted children */
	AUTO_FREE uint32_t *name_of_key = calloc(f->tree->key_count + 1, sizeof *name_of_key);
	AUTO_FREE int32_t *lines = calloc(f->tree->count, sizeof *lines);
	struct result_nodes *nodes = ARENA_NEW(arena, struct result_nodes);

	f->name_of_key = name_of_key;
	f->lines = lines;
	f->names = ARENA_ARRAY(arena, struct result_frame, f->tree->key_count);
	f->name = ARENA_ARRAY(arena, int32_t, most);
	f->parent = ARENA_ARRAY(arena, int32_t, most);
	f->value = ARENA_ARRAY(arena, int64_t, most);
	f->self = ARENA_ARRAY(arena, int64_t, most);
	f->before = f->selection->against ? ARENA_ARRAY(arena, int64_t, most) : NULL;
	if (f->selection->sum.variance.samples > 0 || f->selection->sum.variance.allocator_ns > 0) {
		f->value_error = ARENA_ARRAY(arena, float, most);
		f->self_error = ARENA_ARRAY(arena, float, most);
		if (!f->value_error || !f->self_error)
			return false;
	}
	if (!name_of_key || !lines || !nodes || !f->names || !f->name || !f->parent || !f->value ||
	    !f->self || (f->selection->against && !f->before))
		return false;
	pruned_tree_walk(f->tree, visit, f);
	*nodes = (struct result_nodes){ .names = f->names,
					.name_count = f->name_count,
					.name = f->name,
					.parent = f->parent,
					.value = f->value,
					.self = f->self,
					.before = f->before,
					.value_error = f->value_error,
					.self_error = f->self_error,
					.count = f->count };
	r->table = (struct result_table){
		.name = "nodes", .shape = RESULT_TREE, .nodes = nodes, .machines_only = true
	};
	return true;
}

static bool say(struct flame *f, struct result *r)
{
	struct sentences sentences = { .result = r };
	struct words words = { 0 };

	selection_describe(&sentences, f->query, f->selection);
	words_count(&words, r->table.nodes->count, " node for a picture", " nodes for a picture");
	words_text(&words, ": --format json has them, and --view tree is for people");
	sentences_add(&sentences, NULL, &words, NULL);
	return sentences_end(&sentences);
}

static struct result *make(struct flame *f, const struct profile *profile,
			   struct locations *locations)
{
	const struct selection *s = f->selection;
	struct result *r = result_begin("flame", profile, f->query, SELECTION_FIELDS + 1);

	if (r && selection_fields(r, s)) {
		result_head_add(r, "unit", value_text(cost_unit_name(s->cost)));
		if (fill_table(f, r) && say(f, r) && selection_notes(r, profile, locations, s))
			return r;
	}
	result_free(r);
	return NULL;
}

struct result *analyse_flame(const struct profile *profile, struct locations *locations,
			     const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection selection = { 0 };
	AUTO(pruned_tree_release) struct pruned_tree tree = { 0 };
	struct flame f = { .query = query, .selection = &selection, .tree = &tree };
	struct pruned_options options;
	struct result *result = NULL;

	if (pruned_options_of(query, amount_of, 0, &options, error) < 0 ||
	    selection_make(&selection, profile, locations, query,
			   (struct view_defaults){ .cost = COST_LIVE, .at = MOMENT_PEAK },
			   error) < 0)
		return NULL;
	options.own_code_first = query->fold_libraries && own_code_can_lead(profile, options.by);
	if (pruned_tree_grow(&tree, &selection, locations, options) == 0)
		result = make(&f, profile, locations);
	if (!result)
		error_set(error, "out of memory");
	return result;
}
