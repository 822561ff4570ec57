/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Which blocks roots reach, cycles and dominators: small graphs by hand, and random ones against the definitions. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/image/graph.h"

enum { NODES_MAX = 40, EDGES_MAX = 400 };

/* A graph under construction, as pairs. */
struct draft {
	uint32_t blocks, nodes, edges;
	uint8_t classes[NODES_MAX];
	struct {
		uint32_t from, to;
	} edge[EDGES_MAX];
	uint32_t first[NODES_MAX + 1], to[EDGES_MAX];
};

static void add(struct draft *d, uint32_t from, uint32_t to)
{
	assert_true(d->edges < EDGES_MAX);
	d->edge[d->edges].from = from;
	d->edge[d->edges++].to = to;
}

static uint32_t add_root(struct draft *d, enum reach_class class)
{
	d->classes[d->nodes - d->blocks] = (uint8_t) class;
	return d->nodes++;
}

static struct graph finish(struct draft *d)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < d->nodes; i++) {
		d->first[i] = count;
		for (uint32_t e = 0; e < d->edges; e++)
			if (d->edge[e].from == i)
				d->to[count++] = d->edge[e].to;
	}
	d->first[d->nodes] = count;
	return (struct graph){ d->blocks, d->nodes, d->first, d->to, d->classes };
}

static void expect_classes(struct draft *d, const enum reach_class *expected)
{
	struct graph graph = finish(d);
	struct graph_reach reach;

	assert_true(graph_reach(&graph, &reach));
	for (uint32_t i = 0; i < d->blocks; i++)
		assert_int_equal(reach.class[i], expected[i]);
	graph_reach_release(&reach);
}

static void a_list_behind_a_global_is_reachable(void **state)
{
	struct draft d = { .blocks = 4, .nodes = 4 };
	uint32_t root = add_root(&d, REACH_GLOBAL);

	(void)state;
	add(&d, root, 2);
	add(&d, 2, 0);
	add(&d, 0, 1);
	expect_classes(
		&d, (enum reach_class[]){ REACH_GLOBAL, REACH_GLOBAL, REACH_GLOBAL, REACH_DIRECT });
}

static void the_stack_counts_only_if_nothing_else_refers_to_it(void **state)
{
	struct draft d = { .blocks = 3, .nodes = 3 };
	uint32_t stack = add_root(&d, REACH_STACK), unknown = add_root(&d, REACH_UNKNOWN);

	(void)state;
	add(&d, stack, 0);
	add(&d, stack, 1);
	add(&d, 1, 2);
	add(&d, unknown, 2);
	expect_classes(&d, (enum reach_class[]){ REACH_STACK, REACH_STACK, REACH_UNKNOWN });
}

/* 0 -> 1 <-> 2 -> 3, 4 refers to itself, 5 refers to the reachable 6 */
static void a_cycle_is_told_from_what_it_holds(void **state)
{
	struct draft d = { .blocks = 7, .nodes = 7 };
	uint32_t root = add_root(&d, REACH_TLS);

	(void)state;
	add(&d, 0, 1);
	add(&d, 1, 2);
	add(&d, 2, 1);
	add(&d, 2, 3);
	add(&d, 4, 4);
	add(&d, 5, 6);
	add(&d, root, 6);
	expect_classes(&d,
		       (enum reach_class[]){ REACH_DIRECT, REACH_RING, REACH_RING, REACH_INDIRECT,
					     REACH_DIRECT, REACH_DIRECT, REACH_TLS });
}

static void an_interior_pointer_is_noted_unless_a_start_pointer_exists(void **state)
{
	struct draft d = { .blocks = 4, .nodes = 4 };
	uint32_t root = add_root(&d, REACH_GLOBAL);
	struct graph_reach reach;

	(void)state;
	add(&d, root, 0 | GRAPH_INTERIOR);
	add(&d, 0, 1);
	add(&d, root, 2 | GRAPH_INTERIOR);
	add(&d, root, 3);
	add(&d, 3, 2);
	struct graph graph = finish(&d);

	assert_true(graph_reach(&graph, &reach));
	assert_true(reach.is_interior[0]);
	assert_true(reach.is_interior[1]);
	assert_false(reach.is_interior[2]);
	assert_false(reach.is_interior[3]);
	assert_int_equal(reach.holder[0], root);
	assert_int_equal(reach.holder[1], 0);
	assert_int_equal(reach.holder[2], 3);
	graph_reach_release(&reach);
}

static void a_long_list_needs_no_stack(void **state)
{
	enum { LENGTH = 2000000 };
	uint32_t *first = calloc(LENGTH + 2, sizeof *first), *to = calloc(LENGTH + 1, sizeof *to);
	uint8_t class = REACH_GLOBAL;
	struct graph graph = { LENGTH, LENGTH + 1, first, to, &class };
	struct graph_reach reach;

	(void)state;
	assert_true(first && to);
	/* A ring through all blocks, which no root refers to; then one that does. */
	for (uint32_t i = 0; i < LENGTH; i++) {
		first[i] = i;
		to[i] = (i + 1) % LENGTH;
	}
	first[LENGTH] = first[LENGTH + 1] = LENGTH;
	assert_true(graph_reach(&graph, &reach));
	assert_int_equal(reach.class[LENGTH / 2], REACH_RING);
	graph_reach_release(&reach);
	first[LENGTH + 1] = LENGTH + 1; /* to block 0 */
	uint32_t *dominators = graph_dominators(&graph);

	assert_non_null(dominators);
	assert_int_equal(dominators[0], LENGTH);
	assert_int_equal(dominators[LENGTH - 1], LENGTH - 2);
	uint64_t *weights = calloc(LENGTH + 1, sizeof *weights);

	assert_non_null(weights);
	for (uint32_t i = 0; i < LENGTH; i++)
		weights[i] = 1;
	assert_true(graph_retained(&graph, dominators, weights));
	assert_int_equal(weights[LENGTH], LENGTH);
	assert_int_equal(weights[LENGTH - 3], 3);
	free(weights);
	free(dominators);
	free(first);
	free(to);
}

/* ---- random graphs against the definitions ---- */

/* Marks what is reachable from `from` (or from all roots of classes up to `most`, if from is GRAPH_NONE), never through `without`. */
static void flood(const struct graph *g, uint32_t from, unsigned most, uint32_t without,
		  bool reached[NODES_MAX])
{
	bool changed = true;

	memset(reached, 0, NODES_MAX * sizeof *reached);
	if (from != GRAPH_NONE)
		reached[from] = true;
	for (uint32_t i = g->block_count; from == GRAPH_NONE && i < g->node_count; i++)
		reached[i] = g->root_class[i - g->block_count] <= most && i != without;
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < g->node_count; i++)
			for (uint32_t e = g->first[i]; reached[i] && e < g->first[i + 1]; e++) {
				uint32_t to = graph_target(g->to[e]);

				if (!reached[to] && to != without)
					reached[to] = changed = true;
			}
	}
}

static void make_random(struct draft *d, unsigned seed)
{
	uint32_t edges;

	srandom(seed);
	*d = (struct draft){ .blocks = 1 + (uint32_t)random() % 25 };
	d->nodes = d->blocks;
	for (uint32_t i = (uint32_t)random() % 5; i > 0; i--)
		add_root(d, (enum reach_class)(random() % REACH_ROOT_CLASSES));
	edges = (uint32_t)random() % (2 * d->nodes);
	for (uint32_t i = 0; i < edges; i++)
		add(d, (uint32_t)random() % d->nodes,
		    (uint32_t)random() % d->blocks | (random() % 4 == 0 ? GRAPH_INTERIOR : 0));
}

/* direct: no other unreachable block refers to it; ring: it reaches itself through another. */
static enum reach_class class_by_definition(const struct graph *g, uint32_t block,
					    const bool reached[NODES_MAX])
{
	bool from_it[NODES_MAX];

	for (uint32_t e = g->first[block]; e < g->first[block + 1]; e++) {
		flood(g, graph_target(g->to[e]), 0, GRAPH_NONE, from_it);
		if (from_it[block] && graph_target(g->to[e]) != block)
			return REACH_RING;
	}
	for (uint32_t i = 0; i < g->block_count; i++)
		for (uint32_t e = g->first[i]; !reached[i] && e < g->first[i + 1]; e++)
			if (graph_target(g->to[e]) == block && i != block)
				return REACH_INDIRECT;
	return REACH_DIRECT;
}

static void classes_of_random_graphs_follow_the_definition(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 1500; seed++) {
		struct draft d;

		make_random(&d, seed);
		struct graph graph = finish(&d);
		struct graph_reach reach;
		bool reached[NODES_MAX];

		assert_true(graph_reach(&graph, &reach));
		for (uint32_t i = 0; i < d.blocks; i++) {
			unsigned expected = REACH_CLASSES;

			for (unsigned most = REACH_ROOT_CLASSES; most-- > 0;) {
				flood(&graph, GRAPH_NONE, most, GRAPH_NONE, reached);
				if (reached[i])
					expected = most;
			}
			flood(&graph, GRAPH_NONE, REACH_CLASSES, GRAPH_NONE, reached);
			if (expected == REACH_CLASSES)
				expected = class_by_definition(&graph, i, reached);
			if (reach.class[i] != expected)
				fail_msg("seed %u: block %u is %u, not %u", seed, i, reach.class[i],
					 expected);
		}
		graph_reach_release(&reach);
	}
}

/* The number of steps to each node from those that are 0, through blocks and roots of one class. */
static void distances(const struct graph *g, const struct graph_reach *reach, unsigned class,
		      bool interior, uint32_t steps[NODES_MAX])
{
	for (uint32_t round = 0; round < g->node_count; round++)
		for (uint32_t i = 0; i < g->node_count; i++) {
			bool other = i < g->block_count ? reach->class[i] != class : false;

			for (uint32_t e = g->first[i]; !other && e < g->first[i + 1]; e++) {
				uint32_t to = graph_target(g->to[e]);

				if (steps[i] != GRAPH_NONE &&
				    (interior || !(g->to[e] & GRAPH_INTERIOR)))
					steps[to] = MIN(steps[to], steps[i] + 1);
			}
		}
}

static uint32_t path_length(const struct graph *g, const struct graph_reach *reach, uint32_t block,
			    bool to_interior)
{
	uint32_t length = 0;

	for (; block < g->block_count && (!to_interior || reach->is_interior[block]); length++) {
		uint32_t holder = reach->holder[block];
		bool refers = false;

		for (uint32_t e = g->first[holder]; e < g->first[holder + 1]; e++)
			refers |= graph_target(g->to[e]) == block;
		assert_true(refers);
		block = holder;
	}
	return length;
}

static void paths_in_random_graphs_are_the_shortest(void **state)
{
	size_t checked = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 1500; seed++) {
		struct draft d;

		make_random(&d, seed);
		struct graph graph = finish(&d);
		struct graph_reach reach;

		assert_true(graph_reach(&graph, &reach));
		for (unsigned class = 0; class < REACH_ROOT_CLASSES; class ++) {
			uint32_t steps[NODES_MAX], on[NODES_MAX];

			for (uint32_t i = 0; i < d.nodes; i++)
				steps[i] = i >= d.blocks && d.classes[i - d.blocks] == class
						   ? 0
						   : GRAPH_NONE;
			distances(&graph, &reach, class, false, steps);
			for (uint32_t i = 0; i < d.nodes; i++)
				on[i] = steps[i] == GRAPH_NONE ? GRAPH_NONE : 0;
			distances(&graph, &reach, class, true, on);
			for (uint32_t i = 0; i < d.blocks; i++) {
				if (reach.class[i] != class)
					continue;
				checked++;
				assert_int_equal(reach.is_interior[i], steps[i] == GRAPH_NONE);
				if (reach.is_interior[i])
					assert_int_equal(path_length(&graph, &reach, i, true),
							 on[i]);
				else
					assert_int_equal(path_length(&graph, &reach, i, false),
							 steps[i]);
			}
		}
		graph_reach_release(&reach);
	}
	assert_true(checked > 5000);
}

/* A dominates B if B cannot be reached without A; the immediate one is dominated by all others. */
static void dominators_of_random_graphs_follow_the_definition(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 1500; seed++) {
		static bool dominates[NODES_MAX][NODES_MAX];
		struct draft d;
		bool all[NODES_MAX], without[NODES_MAX];

		make_random(&d, seed);
		struct graph graph = finish(&d);
		uint32_t *dominators = graph_dominators(&graph);

		assert_non_null(dominators);
		flood(&graph, GRAPH_NONE, REACH_CLASSES, GRAPH_NONE, all);
		for (uint32_t a = 0; a < d.nodes; a++) {
			flood(&graph, GRAPH_NONE, REACH_CLASSES, a, without);
			for (uint32_t b = 0; b < d.nodes; b++)
				dominates[a][b] = a != b && all[a] && all[b] && !without[b];
		}
		for (uint32_t b = 0; b < d.nodes; b++) {
			uint32_t expected = GRAPH_NONE;

			for (uint32_t a = 0; a < d.nodes; a++)
				if (dominates[a][b] &&
				    (expected == GRAPH_NONE || dominates[expected][a]))
					expected = a;
			if (dominators[b] != expected)
				fail_msg("seed %u: node %u has dominator %u, not %u", seed, b,
					 dominators[b], expected);
		}
		free(dominators);
	}
}

static uint32_t group_at(const void *groups, uint32_t block)
{
	return ((const uint32_t *)groups)[block];
}

/* A list of three blocks of one site, each with a block of another: freeing the site frees all six, counted once. */
static void a_group_retains_its_own_blocks_once(void **state)
{
	struct draft d = { .blocks = 6, .nodes = 6 };
	uint32_t root = add_root(&d, REACH_GLOBAL), group_of[] = { 0, 0, 0, 1, 1, 1 };
	uint64_t weights[] = { 10, 10, 10, 1, 1, 1, 0 }, sums[2] = { 0 };

	(void)state;
	add(&d, root, 0);
	add(&d, 0, 1);
	add(&d, 1, 2);
	for (uint32_t i = 0; i < 3; i++)
		add(&d, i, i + 3);
	struct graph graph = finish(&d);
	uint32_t *dominators = graph_dominators(&graph);

	assert_non_null(dominators);
	assert_true(graph_retained(&graph, dominators, weights));
	assert_int_equal(weights[root], 33);
	assert_int_equal(weights[1], 22);
	assert_true(
		graph_retained_by_group(&graph, dominators, weights, group_at, group_of, 2, sums));
	assert_int_equal(sums[0], 33);
	assert_int_equal(sums[1], 3);
	free(dominators);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_behind_a_global_is_reachable),
		cmocka_unit_test(the_stack_counts_only_if_nothing_else_refers_to_it),
		cmocka_unit_test(a_cycle_is_told_from_what_it_holds),
		cmocka_unit_test(an_interior_pointer_is_noted_unless_a_start_pointer_exists),
		cmocka_unit_test(a_long_list_needs_no_stack),
		cmocka_unit_test(classes_of_random_graphs_follow_the_definition),
		cmocka_unit_test(paths_in_random_graphs_are_the_shortest),
		cmocka_unit_test(dominators_of_random_graphs_follow_the_definition),
		cmocka_unit_test(a_group_retains_its_own_blocks_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
