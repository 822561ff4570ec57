/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis */
/*
 * Grouping and trees against a naive oracle, on random profiles: sums of `self` equal the whole,
 * `total` counts a recursion once, every node of a tree is the sum of its lines, and a filter and its
 * opposite make the whole.
 */
#include "test_model_made.h"

#include <inttypes.h>
#include <stdio.h>

#include "analysis/analyses.h"
#include "analysis/result/build.h"
#include "model/build.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/vector.h"

enum { FRAMES = 12, NODES = 60, SITES = 40, ROUNDS = 200 };

/* Few frames and many nodes: the same frame is met again and again on one stack. */
static struct recording random_recording(uint64_t *seed)
{
	struct recording r = made_recording(1);
	struct process_rows *rows = &r.processes[0];

	free(rows->frames);
	free(rows->nodes);
	free(rows->sites);
	free(rows->site_counters);
	rows->frame_count = FRAMES;
	rows->frames = calloc(FRAMES, sizeof *rows->frames);
	rows->node_count = NODES;
	rows->nodes = calloc(NODES, sizeof *rows->nodes);
	rows->site_count = SITES;
	rows->sites = calloc(SITES, sizeof *rows->sites);
	rows->site_counters_count = SITES - 1;
	rows->site_counters = calloc(SITES, sizeof *rows->site_counters);
	for (size_t i = 1; i < FRAMES; i++)
		rows->frames[i] = live_frame_pack(1 + i % 2, 0x1000 * i, 0);
	for (uint32_t i = 1; i < NODES; i++)
		rows->nodes[i] =
			(struct node_row){ (uint32_t)(unit_random(seed) % i),
					   1 + (uint32_t)(unit_random(seed) % (FRAMES - 1)) };
	for (uint32_t i = 1; i < SITES; i++) {
		struct site_counters_row *c = &rows->site_counters[i - 1];

		rows->sites[i] = (struct site_row){ .node = 1 + (uint32_t)(unit_random(seed) %
									   (NODES - 1)) };
		*c = (struct site_counters_row){ .site = i,
						 .calls = 1 + unit_random(seed) % 100,
						 .temporary = unit_random(seed) % 5,
						 .fragmentation = unit_random(seed) % 500,
						 .lifetime_ms_sum = unit_random(seed) % 90 };
		c->bytes = c->calls * (16 + unit_random(seed) % 64);
		c->frees = unit_random(seed) % (c->calls + 1);
		c->freed_bytes = c->bytes / c->calls * c->frees;
		c->peak_blocks = (int64_t)(unit_random(seed) % c->calls);
		c->peak_bytes = c->peak_blocks * 20;
	}
	free(rows->process.command);
	free(rows->process.exe);
	free(rows->process.allocator);
	rows->process = (struct process_row){ .pid = 1,
					      .mode = LIVE_MODE_EXACT,
					      .duration_ns = 7 * (uint64_t)MADE_SECOND,
					      .command = strdup("x"),
					      .exe = strdup("x"),
					      .allocator = strdup("glibc") };
	made_totals(rows);
	return r;
}

struct fixture {
	struct profile *profile;
	struct names *names;
	struct locations *locations;
};

static struct fixture open_random(uint64_t *seed, struct recording *ret_copy)
{
	uint64_t again = *seed;
	struct recording r = random_recording(seed);
	struct fixture f = { .profile = profile_new(&r, NULL), .names = names_new(NULL) };

	f.locations = locations_new(f.names);
	*ret_copy = random_recording(&again);
	assert_non_null(f.profile);
	assert_non_null(f.locations);
	return f;
}

static void release(struct fixture *f, struct recording *copy)
{
	locations_free(f->locations);
	names_free(f->names);
	profile_free(f->profile);
	recording_release(copy);
}

static struct result *ask(struct fixture *f, const char *view, const struct query *query)
{
	struct error error = ERROR_INIT;
	struct result *result =
		analysis_answer(analysis_find(view), f->profile, f->locations, query, &error);

	if (!result)
		fail_msg("%s: %s", view, error.message);
	return result;
}

static const struct result_value *counters(const struct result *r, size_t row, const char *column)
{
	for (size_t i = 0; i < r->table.column_count; i++)
		if (r->table.columns[i].name && strcmp(r->table.columns[i].name, column) == 0)
			return &r->table.values[row * r->table.column_count + i];
	fail_msg("no column %s", column);
	return NULL;
}

/* The oracle's own idea of a cost, straight from the rows. */
static uint64_t naive_cost(const struct site_counters_row *c, enum cost_id cost)
{
	switch (cost) {
	case COST_LIVE:
		return c->bytes - c->freed_bytes;
	case COST_BLOCKS:
		return c->calls - c->frees;
	case COST_TOTAL:
		return c->bytes;
	case COST_CALLS:
		return c->calls;
	case COST_TEMPORARY:
		return c->temporary;
	case COST_WASTE:
		return c->fragmentation;
	case COST_LIFETIME:
		return c->lifetime_ms_sum * 1000000;
	default:
		fail();
		return 0;
	}
}

static const enum cost_id additive[] = { COST_LIVE,	 COST_BLOCKS, COST_TOTAL,   COST_CALLS,
					 COST_TEMPORARY, COST_WASTE,  COST_LIFETIME };

struct naive {
	uint64_t self[FRAMES], total[FRAMES], whole;
};

static struct naive count_naively(const struct process_rows *rows, enum cost_id cost)
{
	struct naive n = { 0 };

	for (size_t i = 0; i < rows->site_counters_count; i++) {
		uint64_t value = naive_cost(&rows->site_counters[i], cost);
		uint32_t node = rows->sites[rows->site_counters[i].site].node;
		bool seen[FRAMES] = { false };

		n.whole += value;
		n.self[rows->nodes[node].frame] += value;
		for (; node; node = rows->nodes[node].parent) {
			uint32_t frame = rows->nodes[node].frame;

			n.total[frame] += seen[frame] ? 0 : value;
			seen[frame] = true;
		}
	}
	return n;
}

/* "server+0x3000" is frame 3. */
static size_t frame_of(const char *function)
{
	return (size_t)strtoul(strstr(function, "+0x") + 3, NULL, 16) / 0x1000;
}

static void functions_are_what_the_oracle_counts(void **state)
{
	(void)state;
	uint64_t seed = 42;

	for (int round = 0; round < ROUNDS; round++) {
		struct recording copy;
		struct fixture f = open_random(&seed, &copy);

		for (size_t k = 0; k < ARRAY_SIZE(additive); k++) {
			const struct query q = { .file = "x",
						 .limit = SIZE_MAX,
						 .has_cost = true,
						 .cost = additive[k] };
			struct result *r = ask(&f, "functions", &q);
			struct naive n = count_naively(&copy.processes[0], additive[k]);
			uint64_t self = 0;

			for (size_t i = 0; i < r->table.row_count; i++) {
				size_t frame = frame_of(counters(r, i, "function")->text);

				assert_int_equal(counters(r, i, "self")->number, n.self[frame]);
				assert_int_equal(counters(r, i, cost_rows[additive[k]].key)->number,
						 n.total[frame]);
				self += counters(r, i, "self")->number;
				n.total[frame] = 0;
			}
			assert_int_equal(self, n.whole);
			for (size_t i = 0; i < FRAMES; i++)
				assert_int_equal(n.total[i], 0); /* none is missing */
			result_free(r);
		}
		release(&f, &copy);
	}
}

static void groups_of_every_axis_add_up(void **state)
{
	(void)state;
	static const enum axis_id axes[] = { AXIS_LINE, AXIS_FILE, AXIS_MODULE, AXIS_PROCESS };
	uint64_t seed = 7;
	struct recording copy;
	struct fixture f = open_random(&seed, &copy);
	struct naive n = count_naively(&copy.processes[0], COST_CALLS);

	for (size_t k = 0; k < ARRAY_SIZE(axes); k++) {
		const struct query q = { .file = "x",
					 .limit = SIZE_MAX,
					 .has_cost = true,
					 .cost = COST_CALLS,
					 .has_axis = true,
					 .by = axes[k] };
		struct result *r = ask(&f, "functions", &q);
		uint64_t sum = 0;

		for (size_t i = 0; i < r->table.row_count; i++)
			sum += counters(r, i, axis_rows[axes[k]].of_frames ? "self" : "calls")
				       ->number;
		assert_int_equal(sum, n.whole);
		result_free(r);
	}
	release(&f, &copy);
}

/* Every row is its own part and its children; the outermost are the whole. */
static void check_tree(const struct result *r, const char *key, uint64_t whole)
{
	uint64_t outermost = 0;

	for (size_t i = 0; i < r->table.row_count; i++) {
		uint64_t depth = counters(r, i, "depth")->number, children = 0;
		bool hidden = counters(r, i, "hidden")->number > 0;

		for (size_t j = i + 1;
		     j < r->table.row_count && counters(r, j, "depth")->number > depth; j++)
			if (counters(r, j, "depth")->number == depth + 1)
				children += counters(r, j, key)->number;
		if (!hidden)
			assert_int_equal(counters(r, i, key)->number,
					 children + counters(r, i, "self")->number);
		if (depth == 1)
			outermost += counters(r, i, key)->number;
	}
	assert_int_equal(outermost, whole);
}

static void trees_add_up_however_they_are_cut(void **state)
{
	(void)state;
	uint64_t seed = 4242;

	for (int round = 0; round < ROUNDS; round++) {
		struct recording copy;
		struct fixture f = open_random(&seed, &copy);
		struct query q = { .file = "x",
				   .limit = 1 + unit_random(&seed) % 30,
				   .has_cost = true,
				   .cost = COST_TOTAL,
				   .has_threshold = true,
				   .threshold_percent = (double)(unit_random(&seed) % 9),
				   .callees_first = unit_random(&seed) % 2,
				   .fold_recursion = unit_random(&seed) % 2 };
		struct result *r = ask(&f, "tree", &q);
		struct naive n = count_naively(&copy.processes[0], COST_TOTAL);
		size_t shown = 0;

		check_tree(r, "total_bytes", n.whole);
		for (size_t i = 0; i < r->table.row_count; i++)
			shown += counters(r, i, "hidden")->number == 0;
		assert_true(shown <= q.limit);
		result_free(r);
		/* With one level, what is on the tree is what the flat view calls self or outermost. */
		q.limit = SIZE_MAX;
		q.threshold_percent = 0;
		q.callees_first = true;
		q.fold_recursion = false;
		q.depth = 1;
		r = ask(&f, "tree", &q);
		for (size_t i = 0; i < r->table.row_count; i++)
			if (counters(r, i, "function")->text &&
			    counters(r, i, "depth")->number == 1)
				assert_int_equal(
					counters(r, i, "total_bytes")->number,
					n.self[frame_of(counters(r, i, "function")->text)]);
		result_free(r);
		release(&f, &copy);
	}
}

/* All nodes as "outer;inner; value self", sorted: the order of equals is nobody's business. */
struct path_sum {
	char *path;
	uint64_t value, self;
};
typedef VECTOR(struct path_sum) path_sums;

static void add_path(path_sums *sums, const size_t *frames, size_t depth, uint64_t value,
		     uint64_t self)
{
	struct buffer path = BUFFER_INIT;

	for (size_t i = 0; i < depth; i++)
		buffer_printf(&path, "%zu;", frames[i]);
	char *text = buffer_take_string(&path);

	for (size_t i = 0; i < sums->count; i++)
		if (strcmp(sums->at[i].path, text) == 0) {
			sums->at[i].value += value;
			sums->at[i].self += self;
			free(text);
			return;
		}
	assert_true(vector_push(sums, ((struct path_sum){ text, value, self })));
}

static int compare_paths(const void *left, const void *right)
{
	return strcmp(((const struct path_sum *)left)->path,
		      ((const struct path_sum *)right)->path);
}

static char *whole_text(path_sums *sums)
{
	struct buffer all = BUFFER_INIT;

	qsort(sums->at, sums->count, sizeof *sums->at, compare_paths);
	for (size_t i = 0; i < sums->count; i++) {
		buffer_printf(&all, "%s %" PRIu64 " %" PRIu64 "\n", sums->at[i].path,
			      sums->at[i].value, sums->at[i].self);
		free(sums->at[i].path);
	}
	vector_release(sums);
	return buffer_take_string(&all);
}

/* Every beginning of every stack, straight from the rows. */
static char *naive_nodes(const struct process_rows *rows, const struct query *q)
{
	path_sums sums = { 0 };

	for (size_t i = 0; i < rows->site_counters_count; i++) {
		uint64_t value = naive_cost(&rows->site_counters[i], q->cost);
		uint32_t node = rows->sites[rows->site_counters[i].site].node;
		size_t leaf_first[NODES], path[NODES], count = 0, depth = 0;

		for (; node; node = rows->nodes[node].parent)
			leaf_first[count++] = rows->nodes[node].frame;
		for (size_t j = 0; j < count; j++) {
			size_t frame = leaf_first[q->callees_first ? j : count - 1 - j];

			if (!q->fold_recursion || depth == 0 || path[depth - 1] != frame)
				path[depth++] = frame;
		}
		for (size_t j = 1; j <= depth; j++)
			add_path(&sums, path, j, value, j == depth ? value : 0);
	}
	return whole_text(&sums);
}

static char *nodes_of_tree(struct fixture *f, const struct query *q)
{
	struct result *r = ask(f, "tree", q);
	path_sums sums = { 0 };
	size_t path[NODES];

	for (size_t i = 0; i < r->table.row_count; i++) {
		size_t depth = counters(r, i, "depth")->number;

		path[depth - 1] = frame_of(counters(r, i, "function")->text);
		add_path(&sums, path, depth, counters(r, i, "total_bytes")->number,
			 counters(r, i, "self")->number);
	}
	assert_int_equal(sums.count, r->table.row_count); /* no node twice */
	result_free(r);
	return whole_text(&sums);
}

static char *nodes_of_flame(struct fixture *f, const struct query *q)
{
	struct result *r = ask(f, "flame", q);
	const struct result_nodes *n = r->table.nodes;
	path_sums sums = { 0 };
	size_t path[NODES], *depths = calloc(n->count + 1, sizeof *depths);

	for (size_t i = 0; i < n->count; i++) {
		depths[i] = n->parent[i] < 0 ? 1 : depths[n->parent[i]] + 1;
		path[depths[i] - 1] = frame_of(n->names[n->name[i]].function);
		add_path(&sums, path, depths[i], (uint64_t)n->value[i], (uint64_t)n->self[i]);
	}
	assert_int_equal(sums.count, n->count);
	free(depths);
	result_free(r);
	return whole_text(&sums);
}

static void whole_trees_and_flames_have_every_beginning_of_every_stack(void **state)
{
	(void)state;
	uint64_t seed = 777;

	for (int round = 0; round < ROUNDS; round++) {
		struct recording copy;
		struct fixture f = open_random(&seed, &copy);
		const struct query q = { .file = "x",
					 .limit = SIZE_MAX,
					 .has_cost = true,
					 .cost = COST_TOTAL,
					 .has_threshold = true,
					 .callees_first = unit_random(&seed) % 2,
					 .fold_recursion = unit_random(&seed) % 2 };
		AUTO_FREE char *wanted = naive_nodes(&copy.processes[0], &q);
		AUTO_FREE char *tree = nodes_of_tree(&f, &q), *flame = nodes_of_flame(&f, &q);

		assert_true(strlen(wanted) > 100);
		assert_string_equal(tree, wanted);
		assert_string_equal(flame, wanted);
		release(&f, &copy);
	}
}

/* What a limit leaves are the heaviest nodes of all. */
static void a_limit_leaves_the_heaviest(void **state)
{
	(void)state;
	uint64_t seed = 778;

	for (int round = 0; round < ROUNDS; round++) {
		struct recording copy;
		struct fixture f = open_random(&seed, &copy);
		struct query q = { .file = "x",
				   .limit = SIZE_MAX,
				   .has_cost = true,
				   .cost = COST_TOTAL,
				   .callees_first = unit_random(&seed) % 2 };
		struct result *all = ask(&f, "flame", &q);

		q.limit = 1 + unit_random(&seed) % 20;
		struct result *some = ask(&f, "flame", &q);
		const struct result_nodes *a = all->table.nodes, *s = some->table.nodes;
		int64_t least = INT64_MAX;
		size_t named = 0, heavier = 0;

		for (size_t i = 0; i < s->count; i++)
			if (s->name[i] >= 0) {
				named++;
				least = MIN(least, s->value[i]);
			}
		for (size_t i = 0; i < a->count; i++)
			heavier += a->value[i] > least;
		assert_int_equal(named, MIN(q.limit, a->count));
		assert_true(heavier < q.limit);
		result_free(all);
		result_free(some);
		release(&f, &copy);
	}
}

/* A node is its own and its children, which are behind it and sorted; the outermost are the whole. */
static void check_flame(const struct result_nodes *n, uint64_t whole)
{
	int64_t *children = calloc(n->count + 1, sizeof *children);
	int64_t *last = calloc(n->count + 1, sizeof *last), outermost = 0;

	for (size_t i = 0; i < n->count; i++) {
		assert_true(n->parent[i] < (int32_t)i && n->value[i] > 0);
		if (n->parent[i] < 0) {
			outermost += n->value[i];
			continue;
		}
		size_t parent = (size_t)n->parent[i];

		if (n->name[i] >= 0 && last[parent])
			assert_true(n->value[i] <= last[parent]);
		last[parent] = n->value[i];
		children[parent] += n->value[i];
	}
	for (size_t i = 0; i < n->count; i++)
		assert_int_equal(n->value[i], n->self[i] + children[i]);
	assert_int_equal(outermost, whole);
	free(children);
	free(last);
}

static void flames_add_up_however_they_are_cut(void **state)
{
	(void)state;
	uint64_t seed = 4343;
	size_t folded = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct recording copy;
		struct fixture f = open_random(&seed, &copy);
		const struct query q = { .file = "x",
					 .limit = 1 + unit_random(&seed) % 30,
					 .has_cost = true,
					 .cost = COST_TOTAL,
					 .depth = unit_random(&seed) % 6,
					 .has_threshold = round % 2,
					 .threshold_percent = (double)(unit_random(&seed) % 9),
					 .callees_first = unit_random(&seed) % 2,
					 .fold_recursion = unit_random(&seed) % 2 };
		struct naive n = count_naively(&copy.processes[0], COST_TOTAL);
		struct result *r = ask(&f, "flame", &q);
		const struct result_nodes *nodes = r->table.nodes;
		size_t named = 0;

		check_flame(nodes, n.whole);
		for (size_t i = 0; i < nodes->count; i++) {
			named += nodes->name[i] >= 0;
			if (nodes->name[i] >= 0 && q.has_threshold)
				assert_true((double)nodes->value[i] * 100 >=
					    (double)n.whole * q.threshold_percent - 100);
		}
		assert_true(named <= q.limit);
		folded += nodes->count - named;
		result_free(r);
		release(&f, &copy);
	}
	assert_true(folded > ROUNDS);
}

static uint64_t shown_sum(struct fixture *f, enum rule_kind kind, const char *regex)
{
	struct query q = { .file = "x", .limit = SIZE_MAX, .has_cost = true, .cost = COST_TOTAL };
	uint64_t sum = 0;

	assert_int_equal(filters_add(&q.filters, kind, regex, NULL), 0);
	struct result *r = ask(f, "functions", &q);

	for (size_t i = 0; i < r->table.row_count; i++)
		sum += counters(r, i, "self")->number;
	result_free(r);
	filters_release(&q.filters);
	return sum;
}

static void a_filter_and_its_opposite_are_the_whole(void **state)
{
	(void)state;
	uint64_t seed = 99;

	for (int round = 0; round < 50; round++) {
		struct recording copy;
		struct fixture f = open_random(&seed, &copy);
		struct naive n = count_naively(&copy.processes[0], COST_TOTAL);
		size_t frame = 1 + unit_random(&seed) % (FRAMES - 1);
		char regex[32];

		snprintf(regex, sizeof regex, "0x%zx000$", frame);
		uint64_t focus = shown_sum(&f, RULE_FOCUS, regex);
		uint64_t ignore = shown_sum(&f, RULE_IGNORE, regex);

		assert_int_equal(focus, n.total[frame]);
		assert_int_equal(focus + ignore, n.whole);
		assert_int_equal(shown_sum(&f, RULE_MODULE, "server") +
					 shown_sum(&f, RULE_NOT_MODULE, "server"),
				 n.whole);
		release(&f, &copy);
	}
}

static void words_are_understood_or_refused(void **state)
{
	(void)state;
	struct moment m;
	struct error error = ERROR_INIT;
	enum cost_id cost;
	enum axis_id axis;

	assert_int_equal(moment_parse("time:1.5s", &m, &error), 0);
	assert_int_equal(m.kind, MOMENT_TIME);
	assert_int_equal(m.at_ns, 1500000000);
	assert_int_equal(moment_parse("time:200ms", &m, &error), 0);
	assert_int_equal(m.at_ns, 200000000);
	assert_int_equal(moment_parse("time:2min", &m, &error), 0);
	assert_int_equal(m.at_ns, 120000000000);
	assert_int_equal(moment_parse("snap:3", &m, &error), 0);
	assert_int_equal(m.number, 3);
	assert_null(m.name);
	assert_int_equal(moment_parse("snap:3rd of May", &m, &error), 0);
	assert_string_equal(m.name, "3rd of May");
	assert_int_equal(moment_parse("snap:", &m, &error), -1);
	assert_int_equal(moment_parse("time:-1", &m, &error), -1);
	assert_int_equal(moment_parse("time:nan", &m, &error), -1);
	assert_int_equal(moment_parse("snap:0", &m, &error), -1);
	assert_int_equal(moment_parse("noon", &m, &error), -1);
	assert_int_equal(cost_parse("leaked", &cost, &m, &error), 0);
	assert_int_equal(cost, COST_LIVE);
	assert_int_equal(m.kind, MOMENT_END);
	assert_int_equal(cost_parse("money", &cost, &m, &error), -1);
	assert_int_equal(axis_parse("module", &axis, &error), 0);
	assert_int_equal(axis_parse("moon", &axis, &error), -1);
}

static void suppressions_match_as_in_leaksanitizer(void **state)
{
	(void)state;
	assert_true(suppression_matches("parse", "http_parse_header"));
	assert_true(suppression_matches("^http", "http_parse_header"));
	assert_false(suppression_matches("^parse", "http_parse_header"));
	assert_true(suppression_matches("header$", "http_parse_header"));
	assert_false(suppression_matches("parse$", "http_parse_header"));
	assert_true(suppression_matches("http*header", "http_parse_header"));
	assert_true(suppression_matches("^http*er$", "http_parse_header"));
	assert_false(suppression_matches("header*http", "http_parse_header"));
	assert_true(suppression_matches("*", "anything"));
	assert_false(suppression_matches("^parse$", "parsers"));
	assert_true(suppression_matches("^parse$", "parse"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_what_the_oracle_counts),
		cmocka_unit_test(groups_of_every_axis_add_up),
		cmocka_unit_test(trees_add_up_however_they_are_cut),
		cmocka_unit_test(whole_trees_and_flames_have_every_beginning_of_every_stack),
		cmocka_unit_test(a_limit_leaves_the_heaviest),
		cmocka_unit_test(flames_add_up_however_they_are_cut),
		cmocka_unit_test(a_filter_and_its_opposite_are_the_whole),
		cmocka_unit_test(words_are_understood_or_refused),
		cmocka_unit_test(suppressions_match_as_in_leaksanitizer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
