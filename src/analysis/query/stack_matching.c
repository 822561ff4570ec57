/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks with the same functions: see stack_matching.h.
 *
 * From the outermost frame inwards each stack is a path of steps, and a step is known by the one before it and its
 * function: so equal stacks end at the same step, whose number is theirs. The recording knows which stacks share their
 * beginnings: what was reached by a stack's caller is remembered, so that a shared beginning is walked once.
 */
#include "analysis/query/stack_matching.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "util/vector.h"

struct step {
	uint32_t before, function;
};

struct numbering {
	struct locations *locations;
	VECTOR(struct step) steps; /* [0] is before the first */
	uint32_t *slots;	   /* hash of a step -> its number; 0: none */
	size_t slot_count;
	/* By stack of the process at hand: the step that it ends with, + 1; 0: not yet. */
	const struct profile_process *process;
	uint32_t *reached;
	VECTOR(uint32_t) path;
};

static size_t hash_of(struct step step)
{
	uint64_t mixed =
		((uint64_t)step.before << 32 | step.function) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(mixed >> 20);
}

static bool grow_slots(struct numbering *n)
{
	size_t wanted = n->slot_count ? n->slot_count * 2 : 1024;
	uint32_t *slots = calloc(wanted, sizeof *slots);

	if (!slots)
		return false;
	for (uint32_t i = 1; i < n->steps.count; i++) {
		size_t at = hash_of(n->steps.at[i]) & (wanted - 1);

		while (slots[at])
			at = (at + 1) & (wanted - 1);
		slots[at] = i;
	}
	free(n->slots);
	n->slots = slots;
	n->slot_count = wanted;
	return true;
}

/* 0 if out of memory. */
static uint32_t number_of(struct numbering *n, struct step step)
{
	if (n->steps.count * 2 >= n->slot_count && !grow_slots(n))
		return 0;
	size_t at = hash_of(step) & (n->slot_count - 1);

	for (; n->slots[at]; at = (at + 1) & (n->slot_count - 1)) {
		const struct step *known = &n->steps.at[n->slots[at]];

		if (known->before == step.before && known->function == step.function)
			return n->slots[at];
	}
	if (!vector_push(&n->steps, step))
		return 0;
	n->slots[at] = (uint32_t)n->steps.count - 1;
	return n->slots[at];
}

/* Up to a caller that was reached before, then down again. False if out of memory. */
static bool reach(struct numbering *n, node_id stack, uint32_t *ret)
{
	uint32_t at = 0;

	ASSERT(n->reached);
	n->path.count = 0;
	for (; stack.v && !n->reached[stack.v]; stack = profile_node(n->process, stack).parent)
		if (!vector_push(&n->path, stack.v))
			return false;
	if (stack.v)
		at = n->reached[stack.v] - 1;
	for (size_t i = n->path.count; i > 0; i--) {
		node_id next = { n->path.at[i - 1] };
		struct location_chain chain = locations_of(n->locations, n->process, next);

		if (!chain.at)
			return false;
		for (size_t j = chain.count; j > 0; j--) {
			at = number_of(n, (struct step){ at, chain.at[j - 1]->function });
			if (at == 0)
				return false;
		}
		n->reached[next.v] = at + 1;
	}
	*ret = at;
	return true;
}

static bool begin_process(struct numbering *n, const struct profile_process *process)
{
	if (n->process == process)
		return true;
	free(n->reached);
	n->process = process;
	n->reached = calloc(process->node_count, sizeof *n->reached);
	return n->reached;
}

int same_stacks(const struct entry *entries, size_t count, struct locations *locations,
		uint32_t *ret_numbers)
{
	struct numbering n = { .locations = locations };
	bool done = vector_push(&n.steps, (struct step){ 0 });

	for (size_t i = 0; i < count && done; i++)
		done = begin_process(&n, entries[i].process) &&
		       reach(&n, entries[i].site->node, &ret_numbers[i]);
	vector_release(&n.steps);
	vector_release(&n.path);
	free(n.slots);
	free(n.reached);
	return done ? 0 : -1;
}
