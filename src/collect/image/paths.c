/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_reach has stored for each block the node before it; a path follows these backwards. Where in the parent the pointer is was not
 * stored, since that would be a number for each of many millions of references: the parents on the paths are read once more, each once
 * for all of its children that are on any path.
 *
 * A list may be as long as the heap has blocks, and each of a thousand paths may go through it: the number of steps that are walked is
 * limited, and a path beyond the limit is not known. Owned by one thread.
 */
#include "collect/image/paths.h"

#include <stdlib.h>

#include "util/cleanup.h"
#include "util/search.h"

enum {
	END_STEPS = 8, /* of a long path, at either end */
	WORD = sizeof(uint64_t),
};
#define WALK_MAX (UINT64_C(1) << 26)

void paths_release(struct paths *paths)
{
	vector_release(&paths->steps);
	vector_release(&paths->list);
}

/* The blocks at both ends of a path. */
struct walk {
	uint32_t last[END_STEPS], first[END_STEPS]; /* first: step i is at i % END_STEPS */
	size_t count;				    /* of steps */
};

/* Backwards from the block: step 0 leads to it. */
static uint32_t walk_to_root(struct paths *paths, uint32_t block, struct walk *walk)
{
	const struct graph *g = &paths->references->graph;
	uint32_t node = block;

	for (*walk = (struct walk){ 0 }; node < g->block_count; walk->count++) {
		if (paths->reach->holder[node] == GRAPH_NONE || paths->walked++ >= WALK_MAX)
			return GRAPH_NONE;
		if (walk->count < END_STEPS)
			walk->last[walk->count] = node;
		walk->first[walk->count % END_STEPS] = node;
		node = paths->reach->holder[node];
	}
	return node - g->block_count;
}

uint32_t paths_root(struct paths *paths, uint32_t block)
{
	struct walk walk;

	return walk_to_root(paths, block, &walk);
}

static bool push_step(struct paths *paths, uint32_t to)
{
	struct path_step step = { paths->reach->holder[to], to, PATH_NO_OFFSET, false };

	return vector_push(&paths->steps, step);
}

bool paths_add(struct paths *paths, uint32_t block)
{
	struct walk walk;
	struct path path = { .first = paths->steps.count };

	path.root = walk_to_root(paths, block, &walk);
	if (path.root == GRAPH_NONE)
		return vector_push(&paths->list, path);
	for (size_t i = walk.count; i-- > 0;) {
		if (i >= END_STEPS && i + END_STEPS < walk.count) {
			struct path_step gap = { GRAPH_NONE, (uint32_t)(i + 1 - END_STEPS),
						 PATH_NO_OFFSET, false };

			if (!vector_push(&paths->steps, gap))
				return false;
			i = END_STEPS;
			continue;
		}
		if (!push_step(paths, i < END_STEPS ? walk.last[i] : walk.first[i % END_STEPS]))
			return false;
	}
	path.count = paths->steps.count - path.first;
	return vector_push(&paths->list, path);
}

/* ---- offsets ---- */

/* The steps from one node, by their targets; several may have the same. */
struct parent {
	struct path_step **steps;
	size_t count, found; /* found: steps with a pointer to the start of the block */
	uint64_t base;
	bool is_allocator;
	const struct live_blocks *blocks;
};

/* The first step to the block with the address; `count` if there is none. */
static size_t step_to(const struct parent *p, uint64_t address)
{
	size_t low =
		FIRST_WHERE(i, p->count, block_end(&p->blocks->list.at[p->steps[i]->to]) > address);

	return low < p->count && p->blocks->list.at[p->steps[low]->to].address <= address
		       ? low
		       : p->count;
}

/* A pointer to the start counts more than one to the middle, as for graph_reach; then the first one. */
static bool find_in_words(void *context, uint64_t address, const uint64_t *words, size_t count)
{
	struct parent *p = context;

	for (size_t i = 0; i < count; i++) {
		size_t at = step_to(p, words[i]);

		if (at == p->count)
			continue;
		uint32_t to = p->steps[at]->to;
		const struct live_block *block = &p->blocks->list.at[to];
		bool at_start = words[i] == block->address;
		uint64_t offset = address + i * WORD - p->base;

		if (p->is_allocator && reference_is_next_chunk(block, words[i]))
			continue;
		for (; at < p->count && p->steps[at]->to == to; at++) {
			struct path_step *step = p->steps[at];

			if (step->at_start || (!at_start && step->offset != PATH_NO_OFFSET))
				continue;
			step->offset = offset;
			step->at_start = at_start;
			p->found += at_start;
		}
		if (p->found == p->count)
			return false;
	}
	return true;
}

static int compare_steps(const void *left, const void *right)
{
	const struct path_step *a = *(struct path_step *const *)left,
			       *b = *(struct path_step *const *)right;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

static void read_parent(const struct paths *paths, struct scanner *scanner,
			const struct live_blocks *blocks, struct path_step **steps, size_t count)
{
	const struct references *r = paths->references;
	uint32_t node = steps[0]->from;
	struct parent p = { .steps = steps, .count = count, .blocks = blocks };

	if (node >= r->graph.block_count) {
		const struct holder *holder = &r->holders.at[node - r->graph.block_count];

		p.base = holder->base;
		p.is_allocator = holder->is_allocator;
		scan_range(scanner, holder->start, holder->end, find_in_words, &p);
		return;
	}
	const struct live_block *block = &blocks->list.at[node];

	p.base = block->address;
	scan_range(scanner, block->address, block->address + block->size_bytes, find_in_words, &p);
}

bool paths_find_offsets(struct paths *paths, struct scanner *scanner,
			const struct live_blocks *blocks)
{
	AUTO_FREE struct path_step **sorted = calloc(paths->steps.count + 1, sizeof(void *));
	size_t count = 0;

	if (!sorted)
		return false;
	for (size_t i = 0; i < paths->steps.count; i++)
		if (paths->steps.at[i].from != GRAPH_NONE)
			sorted[count++] = &paths->steps.at[i];
	qsort(sorted, count, sizeof(void *), compare_steps);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && sorted[end]->from == sorted[i]->from; end++)
			;
		read_parent(paths, scanner, blocks, sorted + i, end - i);
	}
	return true;
}
