/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over stacks: see stack_tree.h. A caller has a smaller number than its callees, so one backward pass sums and links. */
#include "analysis/query/stack_tree.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/compiler.h"

void stack_amount_add(struct stack_amount *sum, const struct stack_amount *part)
{
	sum->value = saturating_add_signed(sum->value, part->value);
	for (size_t i = 0; i < ARRAY_SIZE(sum->also); i++)
		sum->also[i] = saturating_add_signed(sum->also[i], part->also[i]);
	sum->weight = saturating_add(sum->weight, part->weight);
	sum->variance += part->variance;
	for (size_t i = 0; i < ARRAY_SIZE(sum->also); i++)
		sum->also_variance[i] += part->also_variance[i];
}

bool stack_amount_is_zero(const struct stack_amount *a)
{
	return a->weight == 0 && a->also[0] == 0 && a->also[1] == 0;
}

struct stack_amount stack_amount_of_measures(const struct selection *s, const struct measures *m)
{
	struct stack_amount a = { .value = selection_raw(s->cost, m),
				  .variance = (float)selection_raw_variance(s->cost, m) };

	a.weight = magnitude(a.value);
	for (size_t i = 0; i < ARRAY_SIZE(s->also); i++) {
		a.also[i] = selection_raw(s->also[i], m);
		a.also_variance[i] = (float)selection_raw_variance(s->also[i], m);
	}
	return a;
}

struct result_value stack_amount_value(const struct selection *s, const struct stack_amount *a)
{
	return selection_number(s, s->cost, a->value, a->variance);
}

struct result_value stack_amount_also(const struct selection *s, const struct stack_amount *a,
				      unsigned also)
{
	return selection_number(s, s->also[also], a->also[also], a->also_variance[also]);
}

static struct stack_tree *tree_of(struct stack_trees *trees, const struct profile_process *process)
{
	for (size_t i = trees->of.count; i > 0; i--)
		if (trees->of.at[i - 1].process == process)
			return &trees->of.at[i - 1];
	struct stack_tree added = { .process = process,
				    .own = calloc(process->node_count + 1, sizeof *added.own) };

	if (added.own && vector_push(&trees->of, added))
		return &trees->of.at[trees->of.count - 1];
	free(added.own);
	return NULL;
}

static bool link_callers(struct stack_tree *t)
{
	size_t count = t->process->node_count;

	t->through = calloc(count + 1, sizeof *t->through);
	t->first_child = calloc(count + 1, sizeof *t->first_child);
	t->next_sibling = calloc(count + 1, sizeof *t->next_sibling);
	if (!t->through || !t->first_child || !t->next_sibling)
		return false;
	for (uint32_t i = (uint32_t)count; i > 1; i--) {
		uint32_t at = i - 1, parent = profile_parent(t->process, (node_id){ at }).v;

		stack_amount_add(&t->through[at], &t->own[at]);
		if (stack_amount_is_zero(&t->through[at]))
			continue;
		stack_amount_add(&t->through[parent], &t->through[at]);
		t->next_sibling[at] = t->first_child[parent];
		t->first_child[parent] = at;
	}
	return true;
}

bool stack_trees_build(struct stack_trees *trees, const struct selection *s,
		       stack_amount_of *amount_of, bool linked)
{
	*trees = (struct stack_trees){ 0 };
	for (size_t i = 0; i < s->count; i++) {
		const struct stack_amount a = amount_of(s, &s->entries[i]);
		struct stack_tree *tree = tree_of(trees, s->entries[i].process);

		if (!tree)
			return false;
		stack_amount_add(&tree->own[s->entries[i].site->node.v], &a);
		trees->weight = saturating_add(trees->weight, a.weight);
	}
	for (size_t i = 0; i < trees->of.count && linked; i++)
		if (!link_callers(&trees->of.at[i]))
			return false;
	return true;
}

void stack_trees_release(struct stack_trees *trees)
{
	for (size_t i = 0; i < trees->of.count; i++) {
		free(trees->of.at[i].own);
		free(trees->of.at[i].through);
		free(trees->of.at[i].first_child);
		free(trees->of.at[i].next_sibling);
	}
	vector_release(&trees->of);
}
