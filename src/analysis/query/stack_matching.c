/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks with the same functions: see stack_matching.h.
 *
 * From the outermost frame inwards, each stack is a path of steps. A step is identified by its predecessor and its
 * function, so equal stacks end at the same step, whose number is theirs. Stacks share prefixes in the recording: the
 * step reached by each caller is cached, so that a shared prefix is walked only once.
 */
#include "analysis/query/stack_matching.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "util/numbering.h"
#include "util/vector.h"

struct step {
	uint32_t before, function; /* before: number of the previous step + 1; 0: none */
};

struct matching {
	struct locations *locations;
	struct numbering steps;
	/* By stack of the current process: its last step in the form of step.before, + 1; 0: not yet known. */
	const struct profile_process *process;
	uint32_t *reached;
	VECTOR(uint32_t) path;
};

/* Walks up to a caller with a known step, then back down. False if out of memory. */
static bool reach(struct matching *m, node_id stack, uint32_t *ret)
{
	uint32_t at = 0;

	ASSERT(m->reached);
	m->path.count = 0;
	for (; stack.v && !m->reached[stack.v]; stack = profile_parent(m->process, stack))
		if (!vector_push(&m->path, stack.v))
			return false;
	if (stack.v)
		at = m->reached[stack.v] - 1;
	for (size_t i = m->path.count; i > 0; i--) {
		node_id next = { m->path.at[i - 1] };
		struct location_chain chain = locations_of(m->locations, m->process, next);

		if (!chain.at)
			return false;
		for (size_t j = chain.count; j > 0; j--) {
			const struct step step = { at, chain.at[j - 1]->function };
			size_t number = number_of(&m->steps, step);

			if (number >= UINT32_MAX - 1)
				return false;
			at = (uint32_t)number + 1;
		}
		m->reached[next.v] = at + 1;
	}
	*ret = at;
	return true;
}

static bool begin_process(struct matching *m, const struct profile_process *process)
{
	if (m->process == process)
		return true;
	free(m->reached);
	m->process = process;
	m->reached = calloc(process->node_count, sizeof *m->reached);
	return m->reached;
}

int same_stacks(const struct entry *entries, size_t count, struct locations *locations,
		uint32_t *ret_numbers)
{
	struct matching m = { .locations = locations };
	bool done = true;

	for (size_t i = 0; i < count && done; i++)
		done = begin_process(&m, entries[i].process) &&
		       reach(&m, entries[i].site->node, &ret_numbers[i]);
	numbering_release(&m.steps);
	vector_release(&m.path);
	free(m.reached);
	return done ? 0 : -1;
}
