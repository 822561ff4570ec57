/* SPDX-License-Identifier: Apache-2.0 */
/* A build tool in watch mode: reads rules in eight steps, orders the targets, forgets everything, and starts again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 8, TARGETS_PER_STEP = 250 };

struct target {
	char *name;
	char *recipe;
	struct target **needs;
	size_t need_count;
	size_t need_capacity;
	int visited;
};

struct graph {
	struct target **targets;
	size_t count;
	size_t capacity;
};

static double monotonic(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static char *format_name(size_t number)
{
	char buffer[64];
	snprintf(buffer, sizeof buffer, "build/objects/module_%zu/unit_%zu.o", number / 40, number);
	return strdup(buffer);
}

static __attribute__((noinline)) char *expand_recipe(const char *name)
{
	size_t size = 0, used = 0;
	char *recipe = NULL;
	for (int word = 0; word < 12; word++) {
		size_t need = used + strlen(name) + 24;
		if (need > size) {
			size = need + need / 2;
			recipe = realloc(recipe, size);
		}
		used += (size_t)(word == 0 ? sprintf(recipe, "cc -c -o %s", name)
					   : sprintf(recipe + used, " -DOPTION_%d", word));
	}
	return recipe;
}

static __attribute__((noinline)) struct target *add_target(struct graph *graph)
{
	if (graph->count == graph->capacity) {
		graph->capacity = graph->capacity ? graph->capacity * 2 : 64;
		graph->targets = realloc(graph->targets, graph->capacity * sizeof(struct target *));
	}
	struct target *target = calloc(1, sizeof *target);
	target->name = format_name(graph->count);
	target->recipe = expand_recipe(target->name);
	graph->targets[graph->count++] = target;
	return target;
}

static __attribute__((noinline)) void add_need(struct target *target, struct target *needed)
{
	if (target->need_count == target->need_capacity) {
		target->need_capacity += 8;
		target->needs =
			realloc(target->needs, target->need_capacity * sizeof(struct target *));
	}
	target->needs[target->need_count++] = needed;
}

static void read_rules(struct graph *graph)
{
	for (int i = 0; i < TARGETS_PER_STEP; i++) {
		struct target *target = add_target(graph);
		for (size_t k = 1; k < graph->count && k < 24; k++)
			add_need(target,
				 graph->targets[(graph->count * k * 31) % (graph->count - 1)]);
	}
}

static size_t order_targets(struct graph *graph)
{
	struct target **order = malloc(graph->count * sizeof(struct target *));
	size_t placed = 0;
	for (size_t i = 0; i < graph->count; i++) {
		for (size_t k = 0; k < graph->targets[i]->need_count; k++)
			if (!graph->targets[i]->needs[k]->visited++)
				order[placed++] = graph->targets[i]->needs[k];
		if (!graph->targets[i]->visited++)
			order[placed++] = graph->targets[i];
	}
	free(order);
	return placed;
}

static void forget_graph(struct graph *graph)
{
	for (size_t i = 0; i < graph->count; i++) {
		free(graph->targets[i]->name);
		free(graph->targets[i]->recipe);
		free(graph->targets[i]->needs);
		free(graph->targets[i]);
	}
	free(graph->targets);
	memset(graph, 0, sizeof *graph);
}

int main(int argc, char **argv)
{
	double end = monotonic() + (argc > 1 ? atof(argv[1]) : 4.0);
	struct graph graph = { 0 };
	for (unsigned step = 1; monotonic() < end; step++) {
		read_rules(&graph);
		if (step % STEPS == 0) {
			if (order_targets(&graph) != STEPS * TARGETS_PER_STEP)
				return 1;
			forget_graph(&graph);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	forget_graph(&graph);
	return 0;
}
