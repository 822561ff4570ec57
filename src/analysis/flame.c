/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `flame`: the call tree for a picture, as many nodes as one can be drawn of.
 *
 * A node is a set of cursors: places on stacks that have the same name and the same way to them. Opening a node
 * moves each cursor one frame on, from main inwards or, with --callees, from the allocating functions outwards, and
 * sorts them by name: these are its children. The heaviest node is opened first, until there are enough; so a
 * million stacks cost what is shown of them, and what is left out is always the lightest. What is not shown of a node's
 * children is one child without a name: a node's numbers are always its own and its children's.
 *
 * From main inwards a cursor stands for all stacks that begin with its own, which the recording has as a tree
 * already; from the leaves outwards for one.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/build.h"
#include "analysis/comparison.h"
#include "analysis/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

/* More than a picture has pixels, and less than a browser chokes on. */
enum { MOST_NODES = 1000000 };

/* What a node, a cursor or a stack holds. */
struct amount {
	int64_t value, before;
	uint64_t weight; /* of all stacks, without their signs: how much it is worth to be shown */
};

/* The stacks of one process, by their numbers. */
struct stacks {
	const struct profile_process *process;
	struct amount *own;	/* of the stack itself */
	struct amount *through; /* and of those that begin with it; own if not wanted */
	uint32_t *first_child, *next_sibling; /* 0: none; NULL if not wanted */
};

struct cursor {
	uint32_t stacks; /* whose */
	uint32_t origin; /* the stack that is meant */
	uint32_t at;	 /* the stack whose innermost frame it stands on */
	uint32_t place;	 /* in the chain of what was inlined there */
};

typedef VECTOR(struct cursor) cursor_vector;

/* A cursor, and what it stands on. */
struct step {
	struct cursor cursor;
	const struct place *place;
};

struct node {
	const struct place *place; /* one of those; NULL: not shown ones, or the root */
	uint32_t key;
	uint32_t parent, first_child, child_count;
	uint32_t depth;
	bool many_lines;
	struct amount amount;
	int64_t self;
};

/* A node that can be opened. Most have one cursor only. */
struct closed {
	uint64_t weight;
	uint32_t node, count;
	union {
		struct cursor one;
		struct cursor *many;
	};
};

/* A child while its parent is being opened. */
struct child {
	struct node node;
	cursor_vector cursors;
};

struct flame {
	const struct query *query;
	const struct selection *selection;
	struct places *places;
	enum axis_id by;
	size_t most_nodes;
	uint64_t least_weight; /* of a child that is shown */
	VECTOR(struct stacks) stacks;
	VECTOR(struct node) nodes;
	VECTOR(struct closed) closed; /* a heap: the heaviest first */
	VECTOR(struct step) next;
	VECTOR(struct child) children;
	VECTOR(uint32_t) child_of_key; /* by key: + 1; all 0 between openings */
};

static void add(struct amount *sum, const struct amount *part)
{
	sum->value = saturating_add_signed(sum->value, part->value);
	sum->before = saturating_add_signed(sum->before, part->before);
	sum->weight = saturating_add(sum->weight, part->weight);
}

static void release(struct flame *f)
{
	for (size_t i = 0; i < f->stacks.count; i++) {
		struct stacks *s = &f->stacks.at[i];

		if (s->through != s->own)
			free(s->through);
		free(s->own);
		free(s->first_child);
		free(s->next_sibling);
	}
	for (size_t i = 0; i < f->closed.count; i++)
		if (f->closed.at[i].count > 1)
			free(f->closed.at[i].many);
	for (size_t i = 0; i < f->children.count; i++)
		vector_release(&f->children.at[i].cursors);
	vector_release(&f->stacks);
	vector_release(&f->nodes);
	vector_release(&f->closed);
	vector_release(&f->next);
	vector_release(&f->children);
	vector_release(&f->child_of_key);
}

/* ---- what each stack has ---- */

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* Where the cost is a rate, calls are added up and divided at the end: the sum of rounded numbers is no sum. */
static struct amount amount_of(const struct selection *s, const struct entry *e)
{
	struct amount a = { .value = s->cost == COST_RATE ? e->m.calls : selection_cost(s, &e->m) };

	a.weight = magnitude(a.value);
	if (s->against) {
		/* What did not change is part of the picture too. */
		a.before = comparison_of(s, e).before;
		a.weight = MAX(magnitude(a.before),
			       magnitude(saturating_add_signed(a.before, a.value)));
	}
	return a;
}

static int64_t shown(const struct selection *s, int64_t value)
{
	if (s->cost != COST_RATE)
		return value;
	return cost_of(COST_RATE, &(struct measures){ .calls = value }, s->duration_ns);
}

static struct stacks *stacks_of(struct flame *f, const struct profile_process *process)
{
	for (size_t i = f->stacks.count; i > 0; i--)
		if (f->stacks.at[i - 1].process == process)
			return &f->stacks.at[i - 1];
	struct stacks added = { .process = process,
				.own = calloc(process->node_count + 1, sizeof *added.own) };

	if (added.own && vector_push(&f->stacks, added))
		return &f->stacks.at[f->stacks.count - 1];
	free(added.own);
	return NULL;
}

static bool add_entries(struct flame *f)
{
	const struct selection *s = f->selection;

	for (size_t i = 0; i < s->count; i++) {
		const struct amount a = amount_of(s, &s->entries[i]);
		struct stacks *stacks = stacks_of(f, s->entries[i].process);

		if (!stacks)
			return false;
		add(&stacks->own[s->entries[i].site->node.v], &a);
	}
	return true;
}

/* Callers come before callees, so one pass from the end adds up and links. */
static bool add_callers(struct stacks *s)
{
	size_t count = s->process->node_count;

	s->through = calloc(count + 1, sizeof *s->through);
	s->first_child = calloc(count + 1, sizeof *s->first_child);
	s->next_sibling = calloc(count + 1, sizeof *s->next_sibling);
	if (!s->through || !s->first_child || !s->next_sibling)
		return false;
	for (uint32_t i = (uint32_t)count; i > 1; i--) {
		uint32_t at = i - 1, parent = profile_node(s->process, (node_id){ at }).parent.v;

		add(&s->through[at], &s->own[at]);
		if (s->through[at].weight == 0)
			continue;
		add(&s->through[parent], &s->through[at]);
		s->next_sibling[at] = s->first_child[parent];
		s->first_child[parent] = at;
	}
	add(&s->through[0], &s->own[0]);
	return true;
}

static const struct amount *amount_at(const struct flame *f, const struct cursor *c)
{
	const struct stacks *s = &f->stacks.at[c->stacks];

	return f->query->callees_first ? &s->own[c->origin] : &s->through[c->origin];
}

static struct place_chain chain_at(struct flame *f, const struct cursor *c)
{
	return places_of(f->places, f->stacks.at[c->stacks].process, (node_id){ c->at });
}

/* ---- one frame on ---- */

static bool push_next(struct flame *f, struct cursor cursor, struct place_chain chain)
{
	struct step step = { cursor, chain.at ? chain.at[cursor.place] : NULL };

	return chain.at && vector_push(&f->next, step);
}

/* The cursors behind this one, to `next`. What ends here is added to *self. */
static bool step_in(struct flame *f, const struct cursor *c, int64_t *self)
{
	const struct stacks *s = &f->stacks.at[c->stacks];

	if (c->at && c->place > 0) {
		struct cursor inner = *c;

		inner.place--;
		return push_next(f, inner, chain_at(f, c));
	}
	*self = saturating_add_signed(*self, s->own[c->at].value);
	for (uint32_t child = s->first_child[c->at]; child; child = s->next_sibling[child]) {
		struct cursor inner = { c->stacks, child, child, 0 };
		struct place_chain chain = chain_at(f, &inner);

		inner.place = (uint32_t)MAX(chain.count, (size_t)1) - 1;
		if (!push_next(f, inner, chain))
			return false;
	}
	return true;
}

static bool step_out(struct flame *f, const struct cursor *c, int64_t *self)
{
	const struct stacks *s = &f->stacks.at[c->stacks];
	struct place_chain chain = chain_at(f, c);
	struct cursor outer = *c;

	if (!chain.at)
		return false;
	outer.place++;
	if (outer.place < chain.count)
		return push_next(f, outer, chain);
	outer.place = 0;
	outer.at = profile_node(s->process, (node_id){ c->at }).parent.v;
	if (outer.at)
		return push_next(f, outer, chain_at(f, &outer));
	*self = saturating_add_signed(*self, s->own[c->origin].value);
	return true;
}

/* The root's cursors are the ends of all stacks, one step before their first frame. */
static bool begin(struct flame *f, int64_t *self)
{
	for (uint32_t i = 0; i < f->stacks.count; i++) {
		const struct stacks *s = &f->stacks.at[i];

		if (!f->query->callees_first) {
			if (!step_in(f, &(struct cursor){ .stacks = i }, self))
				return false;
			continue;
		}
		*self = saturating_add_signed(*self, s->own[0].value);
		for (uint32_t at = 1; at < s->process->node_count; at++) {
			const struct cursor leaf = { i, at, at, 0 };

			if (s->own[at].weight && !push_next(f, leaf, chain_at(f, &leaf)))
				return false;
		}
	}
	return true;
}

/* ---- sorting by name ---- */

/* NULL if out of memory. */
static struct child *child_for(struct flame *f, const struct node *parent, uint32_t parent_number,
			       const struct place *place, uint32_t key)
{
	while (f->child_of_key.count <= key)
		if (!vector_push(&f->child_of_key, 0))
			return NULL;
	uint32_t known = f->child_of_key.at[key];

	if (known) {
		struct child *child = &f->children.at[known - 1];

		child->node.many_lines |= child->node.place->frame.line != place->frame.line;
		return child;
	}
	struct child added = { .node = { .place = place,
					 .key = key,
					 .parent = parent_number,
					 .depth = parent->depth + 1 } };

	if (!vector_push(&f->children, added))
		return NULL;
	f->child_of_key.at[key] = (uint32_t)f->children.count;
	return &f->children.at[f->children.count - 1];
}

/* Takes what is in `next`, and whatever follows it while recursion is folded. */
static bool sort_next(struct flame *f, uint32_t number, int64_t *self)
{
	const struct node parent = f->nodes.at[number];

	while (f->next.count) {
		const struct cursor c = f->next.at[--f->next.count].cursor;
		const struct place *place = f->next.at[f->next.count].place;
		uint32_t key = place_key(place, f->by);

		if (f->query->fold_recursion && parent.place && parent.key == key) {
			if (!(f->query->callees_first ? step_out(f, &c, self)
						      : step_in(f, &c, self)))
				return false;
			continue;
		}
		struct child *child = child_for(f, &parent, number, place, key);

		if (!child || !vector_push(&child->cursors, c))
			return false;
		add(&child->node.amount, amount_at(f, &c));
	}
	return true;
}

static int compare_children(const void *left, const void *right)
{
	const struct child *a = left, *b = right;

	if (a->node.amount.weight != b->node.amount.weight)
		return a->node.amount.weight < b->node.amount.weight ? 1 : -1;
	return a->node.key < b->node.key ? -1 : a->node.key > b->node.key;
}

/* ---- the heap of nodes to open ---- */

static bool push_closed(struct flame *f, struct closed added)
{
	if (!vector_push(&f->closed, added))
		return false;
	size_t at = f->closed.count - 1;

	for (; at > 0 && f->closed.at[(at - 1) / 2].weight < added.weight; at = (at - 1) / 2)
		f->closed.at[at] = f->closed.at[(at - 1) / 2];
	f->closed.at[at] = added;
	return true;
}

static struct closed pop_closed(struct flame *f)
{
	struct closed top = f->closed.at[0], last = f->closed.at[--f->closed.count];
	size_t at = 0, count = f->closed.count;

	while (at * 2 + 1 < count) {
		size_t child = at * 2 + 1;

		if (child + 1 < count &&
		    f->closed.at[child + 1].weight > f->closed.at[child].weight)
			child++;
		if (f->closed.at[child].weight <= last.weight)
			break;
		f->closed.at[at] = f->closed.at[child];
		at = child;
	}
	if (count)
		f->closed.at[at] = last;
	return top;
}

/* ---- opening a node ---- */

static bool keep_child(struct flame *f, struct child *child)
{
	struct closed closed = { .weight = child->node.amount.weight,
				 .node = (uint32_t)f->nodes.count,
				 .count = (uint32_t)child->cursors.count };

	if (closed.count == 1) {
		closed.one = child->cursors.at[0];
		vector_release(&child->cursors);
	} else {
		closed.many = TAKE(child->cursors.at);
	}
	if (vector_push(&f->nodes, child->node) && push_closed(f, closed))
		return true;
	if (closed.count > 1)
		free(closed.many);
	return false;
}

/* The children become nodes, heaviest first; those below the threshold, or beyond the limits, one without a name. */
static bool keep_children(struct flame *f, uint32_t number)
{
	const struct node parent = f->nodes.at[number];
	bool deep = f->query->depth && parent.depth >= f->query->depth;
	uint32_t first = (uint32_t)f->nodes.count;
	struct node folded = { .parent = number, .depth = parent.depth + 1 };
	bool done = true;

	for (size_t i = 0; i < f->children.count; i++)
		f->child_of_key.at[f->children.at[i].node.key] = 0;
	if (f->children.count > 1)
		qsort(f->children.at, f->children.count, sizeof *f->children.at, compare_children);
	for (size_t i = 0; i < f->children.count && done; i++) {
		struct child *child = &f->children.at[i];

		if (deep || child->node.amount.weight < f->least_weight ||
		    f->nodes.count >= f->most_nodes) {
			add(&folded.amount, &child->node.amount);
			vector_release(&child->cursors);
		} else {
			done = keep_child(f, child);
		}
	}
	folded.self = folded.amount.value;
	if (done && folded.amount.weight)
		done = vector_push(&f->nodes, folded);
	if (done) {
		f->nodes.at[number].first_child = first;
		f->nodes.at[number].child_count = (uint32_t)f->nodes.count - first;
		f->children.count = 0;
	}
	return done;
}

static bool open_node(struct flame *f, const struct closed *closed)
{
	const struct cursor *cursors = closed->count == 1 ? &closed->one : closed->many;
	int64_t self = 0;
	bool done = true;

	for (size_t i = 0; i < closed->count && done; i++)
		done = f->query->callees_first ? step_out(f, &cursors[i], &self)
					       : step_in(f, &cursors[i], &self);
	done = done && sort_next(f, closed->node, &self) && keep_children(f, closed->node);
	f->nodes.at[closed->node].self = self;
	if (closed->count > 1)
		free(closed->many);
	return done;
}

static bool grow(struct flame *f)
{
	int64_t self = 0;

	for (size_t i = 0; i < f->stacks.count; i++) {
		struct stacks *s = &f->stacks.at[i];

		s->through = s->own;
		if (!f->query->callees_first && !add_callers(s))
			return false;
	}
	if (!vector_push(&f->nodes, (struct node){ 0 }) || !begin(f, &self) ||
	    !sort_next(f, 0, &self) || !keep_children(f, 0))
		return false;
	while (f->closed.count) {
		const struct closed top = pop_closed(f);

		if (!open_node(f, &top))
			return false;
	}
	return true;
}

/* ---- the result ---- */

struct writer {
	struct result_frame *names;
	size_t name_count;
	int32_t *name, *parent;
	int64_t *value, *self, *before;
	size_t count;
};

/* The place of the key's name; a name that stands for several lines has none. */
static int32_t name_of(struct writer *w, uint32_t *name_of_key, const struct node *n)
{
	if (!n->place)
		return -1;
	uint32_t known = name_of_key[n->key];

	if (!known) {
		known = name_of_key[n->key] = (uint32_t)w->name_count + 1;
		w->names[w->name_count++] = n->place->frame;
	}
	struct result_frame *name = &w->names[known - 1];

	if (n->many_lines || name->line != n->place->frame.line)
		name->line = 0;
	name->inlined &= n->place->frame.inlined;
	return (int32_t)known - 1;
}

static void write_node(struct flame *f, struct writer *w, const struct node *n, int32_t parent,
		       uint32_t *name_of_key)
{
	size_t at = w->count++;

	w->name[at] = name_of(w, name_of_key, n);
	w->parent[at] = parent;
	w->value[at] = shown(f->selection, n->amount.value);
	w->self[at] = shown(f->selection, n->self);
	if (w->before)
		w->before[at] = n->amount.before;
}

/* In preorder, with a list of what is still to be written: a stack of calls may be deeper than ours. */
static bool write_nodes(struct flame *f, struct writer *w)
{
	struct todo {
		uint32_t node;
		int32_t parent;
	};
	AUTO_FREE struct todo *todo = calloc(f->nodes.count + 1, sizeof *todo);
	AUTO_FREE uint32_t *name_of_key = calloc(f->child_of_key.count + 1, sizeof *name_of_key);
	size_t open = 0;

	if (!todo || !name_of_key)
		return false;
	todo[open++] = (struct todo){ 0, -1 };
	while (open) {
		struct todo now = todo[--open];
		const struct node *n = &f->nodes.at[now.node];
		int32_t number = -1;

		if (now.node) {
			number = (int32_t)w->count;
			write_node(f, w, n, now.parent, name_of_key);
		}
		for (uint32_t i = n->child_count; i > 0; i--)
			todo[open++] = (struct todo){ n->first_child + i - 1, number };
	}
	return true;
}

static bool fill_table(struct flame *f, struct result *r)
{
	struct arena *arena = &r->arena;
	size_t count = f->nodes.count;
	struct result_nodes *nodes = ARENA_NEW(arena, struct result_nodes);
	struct writer w = {
		.names = ARENA_ARRAY(arena, struct result_frame, f->child_of_key.count),
		.name = ARENA_ARRAY(arena, int32_t, count),
		.parent = ARENA_ARRAY(arena, int32_t, count),
		.value = ARENA_ARRAY(arena, int64_t, count),
		.self = ARENA_ARRAY(arena, int64_t, count),
		.before = f->selection->against ? ARENA_ARRAY(arena, int64_t, count) : NULL,
	};

	if (!nodes || !w.names || !w.name || !w.parent || !w.value || !w.self ||
	    (f->selection->against && !w.before) || !write_nodes(f, &w))
		return false;
	*nodes = (struct result_nodes){ .names = w.names,
					.name_count = w.name_count,
					.name = w.name,
					.parent = w.parent,
					.value = w.value,
					.self = w.self,
					.before = w.before,
					.count = w.count };
	r->table = (struct result_table){
		.name = "nodes", .shape = RESULT_TREE, .nodes = nodes, .machines_only = true
	};
	return true;
}

static const char *unit_word(enum result_unit unit)
{
	switch (unit) {
	case UNIT_BYTES:
		return "bytes";
	case UNIT_NS:
		return "ns";
	case UNIT_RATE:
		return "per second";
	default:
		return "count";
	}
}

static bool say(struct flame *f, struct result *r)
{
	struct sentences sentences = { .result = r };
	struct words words = { 0 };

	selection_say(&sentences, f->query, f->selection);
	words_count(&words, r->table.nodes->count, " node for a picture", " nodes for a picture");
	words_text(&words, ": --format json has them, and --view tree is for people");
	sentences_add(&sentences, NULL, &words, NULL);
	return sentences_end(&sentences);
}

static uint64_t least_weight(const struct query *q, const struct flame *f)
{
	uint64_t whole = 0;

	for (size_t i = 0; i < f->stacks.count; i++)
		for (size_t at = 0; at < f->stacks.at[i].process->node_count; at++)
			whole = saturating_add(whole, f->stacks.at[i].own[at].weight);
	double least = q->has_threshold ? q->threshold_percent / 100 * (double)whole : 0;

	return MAX(saturating_u64(least), UINT64_C(1));
}

struct result *analyse_flame(const struct profile *profile, struct places *places,
			     const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection selection = { 0 };
	AUTO(release)
	struct flame f = { .query = query,
			   .selection = &selection,
			   .places = places,
			   .by = query->has_axis ? query->by : AXIS_FUNCTION,
			   .most_nodes = MIN(query->limit, (size_t)MOST_NODES) };
	enum { OWN_FIELDS = 2 };

	if (!axis_rows[f.by].of_frames) {
		error_set(error, "a flame graph is made of frames: --by function, line, file or "
				 "module");
		return NULL;
	}
	if (selection_make(&selection, profile, places, query,
			   (struct ask){ .cost = COST_LIVE, .at = MOMENT_PEAK }, error) < 0)
		return NULL;
	struct result *r = result_begin("flame", profile, query, SELECTION_FIELDS + OWN_FIELDS);

	if (r && selection_fields(r, &selection) && add_entries(&f)) {
		f.least_weight = least_weight(query, &f);
		result_head_add(r, "unit", value_text(unit_word(cost_unit(selection.cost, false))));
		result_head_add(r, "total", selection_value(&selection, &selection.sum));
		if (grow(&f) && fill_table(&f, r) && say(&f, r) &&
		    selection_notes(r, profile, places, &selection))
			return r;
	}
	result_free(r);
	error_set(error, "out of memory");
	return NULL;
}
