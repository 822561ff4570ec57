/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree by walking every stack once and adding its numbers at its last node; the sums on
 * the way are made afterwards, from the leaves to the root, because children come after parents.
 *
 * From the outermost frame inwards, stacks share their beginnings, and the recording knows which:
 * the node of a stack's caller is remembered, so that a shared beginning is walked once.
 */
#include "analysis/call_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/vector.h"

struct builder {
	struct call_tree *tree;
	struct places *places;
	struct call_tree_options options;
	/* From main down: the tree's node of each stack of the process at hand, + 1; 0: not yet. */
	const struct profile_process *process;
	uint32_t *reached;
};

/* Some bits of the hash beside the node, so that most others are passed over without a look at them. */
struct call_slot {
	uint32_t node; /* 0: none */
	uint32_t tag;
};

static uint64_t hash_of(uint32_t parent, uint32_t key)
{
	return ((uint64_t)parent << 32 | key) * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t slot_of(uint64_t hash)
{
	return (size_t)(hash >> 20);
}

static bool grow_slots(struct call_tree *t)
{
	size_t wanted = t->slot_count ? t->slot_count * 2 : 1024;
	struct call_slot *slots = calloc(wanted, sizeof *slots);

	if (!slots)
		return false;
	for (uint32_t i = 1; i < t->count; i++) {
		uint64_t hash = hash_of(t->nodes[i].parent, t->nodes[i].key);
		size_t at = slot_of(hash) & (wanted - 1);

		while (slots[at].node)
			at = (at + 1) & (wanted - 1);
		slots[at] = (struct call_slot){ i, (uint32_t)hash };
	}
	free(t->slots);
	t->slots = slots;
	t->slot_count = wanted;
	return true;
}

static bool grow_nodes(struct call_tree *t)
{
	size_t wanted = t->capacity ? t->capacity + t->capacity / 2 : 256;
	struct call_node *nodes = reallocarray(t->nodes, wanted, sizeof *nodes);

	if (!nodes)
		return false;
	t->nodes = nodes;
	t->capacity = wanted;
	return true;
}

/* The child of `parent` for the place; 0 if out of memory. */
static uint32_t child_of(struct call_tree *t, uint32_t parent, const struct place *place,
			 uint32_t key)
{
	if (t->count * 2 >= t->slot_count && !grow_slots(t))
		return 0;
	uint64_t hash = hash_of(parent, key);
	size_t at = slot_of(hash) & (t->slot_count - 1);

	for (; t->slots[at].node; at = (at + 1) & (t->slot_count - 1)) {
		struct call_node *n = &t->nodes[t->slots[at].node];

		if (t->slots[at].tag != (uint32_t)hash || n->parent != parent || n->key != key)
			continue;
		if (n->place->line != place->line)
			n->many_lines = true;
		return t->slots[at].node;
	}
	if (t->count == t->capacity && !grow_nodes(t))
		return 0;
	t->nodes[t->count] = (struct call_node){
		.parent = parent,
		.key = key,
		.depth = t->nodes[parent].depth + 1,
		.place = place,
	};
	t->slots[at] = (struct call_slot){ (uint32_t)t->count, (uint32_t)hash };
	return (uint32_t)t->count++;
}

/* One step; SIZE_MAX-like 0 is out of memory, because nobody steps to the root. */
static uint32_t step(struct builder *b, uint32_t from, const struct place *place)
{
	uint32_t key = place_key(place, b->options.by);

	if (b->options.fold_recursion && from && b->tree->nodes[from].key == key)
		return from;
	return child_of(b->tree, from, place, key);
}

/* The node of the stack, outermost frame first. False if out of memory. */
static bool reach(struct builder *b, node_id stack, uint32_t *ret)
{
	VECTOR(uint32_t) path = { 0 };
	uint32_t at = 0;
	bool done = true;

	if (!b->reached)
		return false;
	/* Up to a caller that was reached before, then down again. */
	for (; stack.v && !b->reached[stack.v]; stack = profile_node(b->process, stack).parent)
		if (!vector_push(&path, stack.v)) {
			vector_release(&path);
			return false;
		}
	if (stack.v)
		at = b->reached[stack.v] - 1;
	for (size_t i = path.count; i > 0 && done; i--) {
		struct place_chain chain =
			places_of(b->places, b->process, (node_id){ path.at[i - 1] });

		done = chain.at != NULL;
		for (size_t j = chain.count; j > 0 && done; j--) {
			at = step(b, at, chain.at[j - 1]);
			done = at != 0;
		}
		b->reached[path.at[i - 1]] = at + 1;
	}
	vector_release(&path);
	*ret = at;
	return done;
}

/* The same from the innermost frame out. */
static bool reach_backwards(struct builder *b, node_id stack, uint32_t *ret)
{
	uint32_t at = 0;

	for (; stack.v; stack = profile_node(b->process, stack).parent) {
		struct place_chain chain = places_of(b->places, b->process, stack);

		if (!chain.at)
			return false;
		for (size_t i = 0; i < chain.count; i++) {
			at = step(b, at, chain.at[i]);
			if (!at)
				return false;
		}
	}
	*ret = at;
	return true;
}

static bool begin_process(struct builder *b, const struct profile_process *process)
{
	if (b->process == process)
		return true;
	free(b->reached);
	b->process = process;
	b->reached = calloc(process->node_count, sizeof *b->reached);
	return b->reached != NULL;
}

static bool find_nodes(struct builder *b, const struct selection *selection, uint32_t *nodes)
{
	for (size_t i = 0; i < selection->count; i++) {
		const struct entry *e = &selection->entries[i];

		if (!begin_process(b, e->process) ||
		    !(b->options.callees_first ? reach_backwards(b, e->site->node, &nodes[i])
					       : reach(b, e->site->node, &nodes[i])))
			return false;
	}
	return true;
}

static bool sum(struct call_tree *t, const struct selection *selection, const uint32_t *nodes)
{
	t->total = calloc(t->count, sizeof *t->total);
	t->self = calloc(t->count, sizeof *t->self);
	if (!t->total || !t->self)
		return false;
	for (size_t i = 0; i < selection->count; i++)
		measures_add(&t->self[nodes[i]], &selection->entries[i].m);
	for (size_t i = t->count; i > 0; i--) {
		measures_add(&t->total[i - 1], &t->self[i - 1]);
		if (i > 1)
			measures_add(&t->total[t->nodes[i - 1].parent], &t->total[i - 1]);
	}
	return true;
}

static void link_children(struct call_tree *t)
{
	for (uint32_t i = (uint32_t)t->count; i > 1; i--) {
		struct call_node *n = &t->nodes[i - 1], *parent = &t->nodes[n->parent];

		n->next_sibling = parent->first_child;
		parent->first_child = i - 1;
	}
}

int call_tree_build(struct call_tree *tree, const struct selection *selection,
		    struct places *places, struct call_tree_options options)
{
	struct builder b = { .tree = tree, .places = places, .options = options };
	AUTO_FREE uint32_t *own =
		options.entry_nodes ? NULL : calloc(selection->count + 1, sizeof *own);
	uint32_t *nodes = options.entry_nodes ? options.entry_nodes : own;

	ASSERT(axis_rows[options.by].of_frames);
	*tree = (struct call_tree){ 0 };
	bool done = nodes && grow_nodes(tree);

	if (done) {
		tree->nodes[0] = (struct call_node){ 0 };
		tree->count = 1;
		done = find_nodes(&b, selection, nodes);
		link_children(tree);
	}
	free(b.reached);
	if (done && (options.entry_nodes || sum(tree, selection, nodes)))
		return 0;
	call_tree_release(tree);
	return -1;
}

void call_tree_release(struct call_tree *tree)
{
	free(tree->nodes);
	free(tree->total);
	free(tree->self);
	free(tree->slots);
	*tree = (struct call_tree){ 0 };
}
