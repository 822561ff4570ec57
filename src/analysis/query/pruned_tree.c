/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows the tree from its root, heaviest first: see pruned_tree.h.
 *
 * A node is a set of cursors: positions on stacks with the same name and the same path from the root. Opening a node advances
 * each cursor by one frame, from main inwards or from the allocating functions outwards, and groups the cursors by name into
 * buds, the candidates for child nodes. The heaviest bud of the whole tree becomes a node and is opened in turn, until there are
 * enough nodes; the remaining buds are folded into their parents. A bud never outweighs its parent, so no heavier bud is missed.
 *
 * From main inwards, a cursor represents all stacks that share its prefix, which the recording stores as a tree; from the leaves
 * outwards, a single stack.
 *
 * A frame that is left out (recursion, libraries) is stepped over: its node is its parent's.
 */
#include "analysis/query/pruned_tree.h"

#include <stdlib.h>

#include "analysis/query/library_frames.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/vector.h"

struct cursor {
	uint32_t stacks;   /* index of the stack tree */
	uint32_t origin;   /* the stack it represents */
	uint32_t at;	   /* the stack whose innermost frame it points at */
	uint32_t location; /* index into the chain of inlined calls there */
};

typedef VECTOR(struct cursor) cursor_vector;

/* A cursor and its location. */
struct step {
	struct cursor cursor;
	const struct location *location;
};

/* A candidate node. Most have a single cursor. */
struct bud {
	const struct location *location;
	uint32_t key, parent;
	struct stack_amount amount;
	bool many_lines;
	struct cursor one;
	cursor_vector more; /* the other cursors */
};

/* An entry of the priority queue: heavier buds first, older ones first among equals. */
struct waiting {
	uint64_t weight;
	uint32_t age, bud;
};

struct grower {
	struct pruned_options options;
	struct locations *locations;
	uint64_t least_weight; /* minimum weight of a node */
	struct stack_trees stacks;
	VECTOR(struct own_stacks) own; /* by stack tree; empty: all frames are shown */
	bool skipped;
	VECTOR(struct pruned_node) nodes;
	VECTOR(struct bud) buds;
	VECTOR(uint32_t) free_buds;
	VECTOR(struct waiting) heap;
	uint32_t age;
	VECTOR(struct step) next;
	VECTOR(uint32_t) opened;     /* the buds of the node being opened */
	VECTOR(uint32_t) bud_of_key; /* by key: bud + 1; all 0 between openings */
};

/* The self amount of a node. */
struct own {
	int64_t value;
	float variance;
};

static void add_own(struct own *sum, const struct stack_amount *part)
{
	sum->value = saturating_add_signed(sum->value, part->value);
	sum->variance += part->variance;
}

static void grower_release(struct grower *g)
{
	for (size_t i = 0; i < g->buds.count; i++)
		vector_release(&g->buds.at[i].more);
	for (size_t i = 0; i < g->own.count; i++)
		own_stacks_release(&g->own.at[i]);
	vector_release(&g->own);
	stack_trees_release(&g->stacks);
	vector_release(&g->nodes);
	vector_release(&g->buds);
	vector_release(&g->free_buds);
	vector_release(&g->heap);
	vector_release(&g->next);
	vector_release(&g->opened);
	vector_release(&g->bud_of_key);
}

static const struct stack_amount *amount_at(const struct grower *g, const struct cursor *c)
{
	const struct stack_tree *s = &g->stacks.of.at[c->stacks];

	return g->options.callees_first ? &s->own[c->origin] : &s->through[c->origin];
}

static struct location_chain chain_at(struct grower *g, const struct cursor *c)
{
	return locations_of(g->locations, g->stacks.of.at[c->stacks].process, (node_id){ c->at });
}

/* ---- advancing by one frame ---- */

static bool push_next(struct grower *g, struct cursor cursor, struct location_chain chain)
{
	struct step step = { cursor, chain.at ? chain.at[cursor.location] : NULL };

	return chain.at && vector_push(&g->next, step);
}

/* Pushes the successors of this cursor to `next`. Adds the amounts that end here to *self. */
static bool step_in(struct grower *g, const struct cursor *c, struct own *self)
{
	const struct stack_tree *s = &g->stacks.of.at[c->stacks];

	if (c->at && c->location > 0) {
		struct cursor inner = *c;

		inner.location--;
		return push_next(g, inner, chain_at(g, c));
	}
	add_own(self, &s->own[c->at]);
	for (uint32_t child = s->first_child[c->at]; child; child = s->next_sibling[child]) {
		struct cursor inner = { c->stacks, child, child, 0 };
		struct location_chain chain = chain_at(g, &inner);

		inner.location = (uint32_t)MAX(chain.count, (size_t)1) - 1;
		if (!push_next(g, inner, chain))
			return false;
	}
	return true;
}

static bool step_out(struct grower *g, const struct cursor *c, struct own *self)
{
	const struct stack_tree *s = &g->stacks.of.at[c->stacks];
	struct location_chain chain = chain_at(g, c);
	struct cursor outer = *c;

	if (!chain.at)
		return false;
	outer.location++;
	if (outer.location < chain.count)
		return push_next(g, outer, chain);
	outer.location = 0;
	outer.at = profile_parent(s->process, (node_id){ c->at }).v;
	if (outer.at)
		return push_next(g, outer, chain_at(g, &outer));
	add_own(self, &s->own[c->origin]);
	return true;
}

static bool step_on(struct grower *g, const struct cursor *c, struct own *self)
{
	return g->options.callees_first ? step_out(g, c, self) : step_in(g, c, self);
}

/* The root's cursors are the ends of all stacks, one step before the first frame. */
static bool step_from_root(struct grower *g, struct own *self)
{
	for (uint32_t i = 0; i < g->stacks.of.count; i++) {
		const struct stack_tree *s = &g->stacks.of.at[i];

		if (!g->options.callees_first) {
			if (!step_in(g, &(struct cursor){ .stacks = i }, self))
				return false;
			continue;
		}
		add_own(self, &s->own[0]);
		for (uint32_t at = 1; at < s->process->node_count; at++) {
			const struct cursor leaf = { i, at, at, 0 };

			if (!stack_amount_is_zero(&s->own[at]) &&
			    !push_next(g, leaf, chain_at(g, &leaf)))
				return false;
		}
	}
	return true;
}

/* ---- grouping by name ---- */

/* Allocates a bud. Returns its number, or UINT32_MAX if out of memory. */
static uint32_t new_bud(struct grower *g, struct bud bud)
{
	if (g->free_buds.count) {
		uint32_t number = g->free_buds.at[--g->free_buds.count];

		g->buds.at[number] = bud;
		return number;
	}
	if (g->buds.count == UINT32_MAX || !vector_push(&g->buds, bud))
		return UINT32_MAX;
	return (uint32_t)g->buds.count - 1;
}

static bool sort_step(struct grower *g, uint32_t parent, uint32_t key, const struct step *step)
{
	while (g->bud_of_key.count <= key)
		if (!vector_push(&g->bud_of_key, 0))
			return false;
	const struct stack_amount *amount = amount_at(g, &step->cursor);
	uint32_t known = g->bud_of_key.at[key];

	if (known) {
		struct bud *bud = &g->buds.at[known - 1];

		/* The line is that of what has weight, if anything has. */
		if (bud->amount.weight == 0 && amount->weight) {
			bud->location = step->location;
			bud->many_lines = false;
		} else if (bud->amount.weight == 0 || amount->weight) {
			bud->many_lines |= bud->location->line != step->location->line;
		}
		stack_amount_add(&bud->amount, amount);
		return vector_push(&bud->more, step->cursor);
	}
	uint32_t number = new_bud(g, (struct bud){ .location = step->location,
						   .key = key,
						   .parent = parent,
						   .amount = *amount,
						   .one = step->cursor });

	if (number == UINT32_MAX)
		return false;
	g->bud_of_key.at[key] = number + 1;
	return vector_push(&g->opened, number);
}

static bool is_left_out(struct grower *g, const struct pruned_node *parent, const struct step *step)
{
	const struct cursor *c = &step->cursor;

	if (g->own.count == 0)
		return false;
	const struct own_stacks *own = &g->own.at[c->stacks];
	const struct library_frame frame = {
		.chain = chain_at(g, c),
		.at = c->location,
		.stack = c->at,
		.allocates = c->location == 0 && g->stacks.of.at[c->stacks].own[c->at].weight > 0,
		.parent_is_own = parent->location && location_is_own(parent->location),
		.below_own = parent->below_own,
	};
	bool left_out = g->options.callees_first ? library_frame_leads_out(own, &frame)
						 : library_frame_leads_in(own, &frame);

	g->skipped |= left_out;
	return left_out;
}

/* Drains `next`, including what follows a frame of folded recursion or one that is left out. */
static bool sort_next(struct grower *g, uint32_t parent, struct own *self)
{
	const struct pruned_node node = g->nodes.at[parent];

	while (g->next.count) {
		const struct step step = g->next.at[--g->next.count];
		uint32_t key = location_key(step.location, g->options.by);
		bool again = g->options.fold_recursion && node.location && node.key == key;

		if (!(again || is_left_out(g, &node, &step) ? step_on(g, &step.cursor, self)
							    : sort_step(g, parent, key, &step)))
			return false;
	}
	return true;
}

/* ---- priority queue ---- */

static bool goes_before(const struct waiting *a, const struct waiting *b)
{
	return a->weight != b->weight ? a->weight > b->weight : a->age < b->age;
}

static bool push_waiting(struct grower *g, struct waiting added)
{
	if (!vector_push(&g->heap, added))
		return false;
	size_t at = g->heap.count - 1;

	for (; at > 0 && goes_before(&added, &g->heap.at[(at - 1) / 2]); at = (at - 1) / 2)
		g->heap.at[at] = g->heap.at[(at - 1) / 2];
	g->heap.at[at] = added;
	return true;
}

static struct waiting pop_waiting(struct grower *g)
{
	struct waiting top = g->heap.at[0], last = g->heap.at[--g->heap.count];
	size_t at = 0, count = g->heap.count;

	while (at * 2 + 1 < count) {
		size_t child = at * 2 + 1;

		if (child + 1 < count && goes_before(&g->heap.at[child + 1], &g->heap.at[child]))
			child++;
		if (!goes_before(&g->heap.at[child], &last))
			break;
		g->heap.at[at] = g->heap.at[child];
		at = child;
	}
	if (count)
		g->heap.at[at] = last;
	return top;
}

/* ---- opening a node ---- */

/* What has no weight is in the amounts of its callers, and is not worth a word. */
static bool fold(struct grower *g, uint32_t number)
{
	struct bud *bud = &g->buds.at[number];
	struct pruned_node *parent = &g->nodes.at[bud->parent];

	if (bud->amount.weight) {
		stack_amount_add(&parent->folded, &bud->amount);
		parent->folded_count++;
	}
	vector_release(&bud->more);
	return vector_push(&g->free_buds, number);
}

/* Queues the buds of an opened node; folds those that are too light or too deep to become nodes. */
static bool keep_buds(struct grower *g, const struct pruned_node *parent)
{
	bool deep = g->options.depth && parent->depth >= g->options.depth;

	for (size_t i = 0; i < g->opened.count; i++) {
		uint32_t number = g->opened.at[i];
		uint64_t weight = g->buds.at[number].amount.weight;

		g->bud_of_key.at[g->buds.at[number].key] = 0;
		if (!(deep || weight < g->least_weight
			      ? fold(g, number)
			      : push_waiting(g, (struct waiting){ weight, g->age++, number })))
			return false;
	}
	g->opened.count = 0;
	return true;
}

static bool open_node(struct grower *g, uint32_t node, const struct bud *bud)
{
	struct own self = { 0 };
	bool done = bud ? step_on(g, &bud->one, &self) : step_from_root(g, &self);

	for (size_t i = 0; bud && i < bud->more.count && done; i++)
		done = step_on(g, &bud->more.at[i], &self);
	done = done && sort_next(g, node, &self);
	g->nodes.at[node].self = self.value;
	g->nodes.at[node].self_variance = self.variance;
	return done && keep_buds(g, &(struct pruned_node){ .depth = g->nodes.at[node].depth });
}

static bool become_node(struct grower *g, uint32_t number)
{
	struct bud bud = g->buds.at[number];
	const struct pruned_node *parent = &g->nodes.at[bud.parent];
	const struct pruned_node node = { .location = bud.location,
					  .key = bud.key,
					  .parent = bud.parent,
					  .depth = parent->depth + 1,
					  .amount = bud.amount,
					  .many_lines = bud.many_lines,
					  .below_own = parent->below_own ||
						       location_is_own(bud.location) };

	g->buds.at[number].more = (cursor_vector){ 0 };
	bool done = vector_push(&g->free_buds, number) && vector_push(&g->nodes, node) &&
		    open_node(g, (uint32_t)g->nodes.count - 1, &bud);

	vector_release(&bud.more);
	return done;
}

/* Nodes were created heaviest first, so linking from last to first keeps children in that order. */
static void link_nodes(struct grower *g)
{
	for (size_t i = g->nodes.count; i > 1; i--) {
		struct pruned_node *node = &g->nodes.at[i - 1],
				   *parent = &g->nodes.at[node->parent];

		node->next_sibling = parent->first_child;
		parent->first_child = (uint32_t)i - 1;
	}
}

static bool grow(struct grower *g)
{
	size_t most = MIN(g->options.most_nodes, (size_t)PRUNED_TREE_MAX_NODES);

	if (!vector_push(&g->nodes, (struct pruned_node){ 0 }) || !open_node(g, 0, NULL))
		return false;
	while (g->heap.count) {
		uint32_t bud = pop_waiting(g).bud;

		if (!(g->nodes.count <= most ? become_node(g, bud) : fold(g, bud)))
			return false;
	}
	link_nodes(g);
	return true;
}

int pruned_options_of(const struct query *query, stack_amount_of *amount_of,
		      double threshold_percent, struct pruned_options *ret, struct error *error)
{
	*ret = (struct pruned_options){
		.amount_of = amount_of,
		.by = query->has_axis ? query->by : AXIS_FUNCTION,
		.callees_first = query->callees_first,
		.fold_recursion = query->fold_recursion,
		.depth = query->depth,
		.most_nodes = query->limit,
		.threshold_percent =
			query->has_threshold ? query->threshold_percent : threshold_percent,
	};
	if (axis_rows[ret->by].of_frames)
		return 0;
	return error_set(error,
			 "a call tree is made of frames: --by function, line, file or module");
}

bool own_code_can_lead(const struct profile *profile, enum axis_id by)
{
	/* The other axes are wider than a frame: a module is own code and libraries at once. And all frames are all. */
	return (by == AXIS_FUNCTION || by == AXIS_LINE) && profile->fold.frames != FRAMES_ALL;
}

static bool find_own_code(struct grower *g)
{
	for (size_t i = 0; i < g->stacks.of.count; i++) {
		struct own_stacks own;

		if (own_stacks_find(&own, &g->stacks.of.at[i], g->locations) < 0)
			return false;
		if (!vector_push(&g->own, own)) {
			own_stacks_release(&own);
			return false;
		}
	}
	return true;
}

int pruned_tree_grow(struct pruned_tree *tree, const struct selection *selection,
		     struct locations *locations, struct pruned_options options)
{
	AUTO(grower_release) struct grower g = { .options = options, .locations = locations };

	ASSERT(axis_rows[options.by].of_frames);
	*tree = (struct pruned_tree){ 0 };
	if (!stack_trees_build(&g.stacks, selection, options.amount_of, !options.callees_first))
		return -1;
	g.least_weight =
		MAX(saturating_u64(options.threshold_percent / 100 * (double)g.stacks.weight),
		    UINT64_C(1));
	if ((options.own_code_first && !find_own_code(&g)) || !grow(&g))
		return -1;
	*tree = (struct pruned_tree){ g.nodes.at, g.nodes.count, g.bud_of_key.count, g.skipped };
	g.nodes.at = NULL;
	return 0;
}

void pruned_tree_release(struct pruned_tree *tree)
{
	free(tree->nodes);
	*tree = (struct pruned_tree){ 0 };
}

void pruned_tree_walk(const struct pruned_tree *tree, pruned_visit *visit, void *context)
{
	const struct pruned_node *nodes = tree->nodes;
	uint32_t at = 0;

	visit(context, 0, false);
	for (;;) {
		uint32_t next = nodes[at].first_child;

		while (!next) {
			visit(context, at, true);
			if (at == 0)
				return;
			next = nodes[at].next_sibling;
			if (!next)
				at = nodes[at].parent;
		}
		at = next;
		visit(context, at, false);
	}
}
