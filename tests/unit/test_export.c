/* SPDX-License-Identifier: Apache-2.0 */
/* links: export render model format */
/*
 * Exporters on hand-made recordings: every format of every recording, also of empty and damaged ones; the text formats to
 * the byte; and the call graph against what it promises, on random stacks full of recursion. What real tools make of them
 * is in tests/e2e/export/test_export_*.py.
 */
#include "test_course_made.h"
#include "test_golden.h"

#include "export/edges.h"
#include "export/exporters.h"
#include "export/stacks.h"
#include "util/text/utf8.h"

struct opened {
	struct profile *profile;
	struct names *names;
	struct locations *locations;
	struct selection selection;
	struct query query;
	struct export_input input;
};

static void open_recording(struct opened *o, struct recording recording, struct query query)
{
	struct error error = ERROR_INIT;

	*o = (struct opened){ .query = query };
	o->query.limit = SIZE_MAX;
	o->profile = profile_new(&recording, NULL);
	o->names = names_new(NULL);
	o->locations = locations_new(o->names);
	assert_non_null(o->profile);
	if (selection_make(&o->selection, o->profile, o->locations, &o->query,
			   (struct view_defaults){ .cost = COST_LIVE, .at = MOMENT_END },
			   &error) < 0)
		fail_msg("%s", error.message);
	o->input = (struct export_input){ o->profile, o->locations, &o->query, &o->selection };
}

static void close_recording(struct opened *o)
{
	selection_release(&o->selection);
	locations_free(o->locations);
	names_free(o->names);
	profile_free(o->profile);
}

static char *export_text(struct recording recording, const char *format, struct query query,
			 size_t *ret_size)
{
	struct error error = ERROR_INIT;
	struct opened o;
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_size);

	assert_non_null(out);
	open_recording(&o, recording, query);
	if (exporter_find(format)->run(&o.input, out, &error) < 0)
		fail_msg("%s: %s", format, error.message);
	close_recording(&o);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* Sites whose stack is not there, and a stack of marks alone. */
static struct recording damaged_recording(void)
{
	struct recording r = made_recording(2);
	struct process_rows *rows = &r.processes[0];

	rows->sites[3].node = UINT32_MAX;
	rows->nodes[rows->node_count - 1].frame = UINT32_MAX;
	return r;
}

static struct recording idle_recording(void)
{
	struct recording r = made_recording(1);
	struct process_rows *rows = &r.processes[0];

	rows->site_counters_count = 0;
	rows->site_count = 1;
	made_totals(rows);
	return r;
}

static void every_format_takes_every_recording(void **state)
{
	(void)state;
	struct recording (*const makers[])(void) = { damaged_recording, idle_recording };
	const struct query questions[] = {
		{ 0 },
		{ .at = { .kind = MOMENT_PEAK } },
		{ .kinds = KINDS_ALL },
		{ .has_cost = true, .cost = COST_WASTE },
		{ .at = { .kind = MOMENT_END }, .minus = { .kind = MOMENT_PEAK } },
	};

	for (const struct exporter *e = exporters; e->name; e++)
		for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
			size_t size;

			free(export_text(made_course(2), e->name, questions[i], &size));
			for (size_t j = 0; j < ARRAY_SIZE(makers); j++)
				free(export_text(makers[j](), e->name, questions[i], &size));
		}
}

static void a_recording_without_processes_is_no_crash(void **state)
{
	(void)state;
	struct recording r = { .run.command = strdup("nothing") };
	struct opened o;

	open_recording(&o, r, (struct query){ 0 });
	for (const struct exporter *e = exporters; e->name; e++) {
		struct error error = ERROR_INIT;
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		int status = e->run(&o.input, out, &error);

		assert_int_equal(fclose(out), 0);
		free(text);
		/* massif is of one process. */
		assert_int_equal(status, strcmp(e->name, "massif") == 0 ? -1 : 0);
	}
	close_recording(&o);
}

static void text_formats_are_as_they_were(void **state)
{
	(void)state;
	static const char *const formats[] = { "folded",    "speedscope", "dot",    "dot-tags",
					       "gprof2dot", "callgrind",  "massif", "dhat",
					       "heaptrack", "csv",	  "jsonl" };
	char name[64];
	size_t size;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		snprintf(name, sizeof name, "export.%s", formats[i]);
		compare_golden(
			export_text(made_recording(2), formats[i], (struct query){ 0 }, &size),
			name);
	}
}

static void a_stack_that_is_gone_keeps_its_bytes(void **state)
{
	(void)state;
	size_t size;
	struct query total = { .has_cost = true, .cost = COST_TOTAL };
	AUTO_FREE char *folded = export_text(damaged_recording(), "folded", total, &size);
	AUTO_FREE char *gprof2dot = export_text(damaged_recording(), "gprof2dot", total, &size);

	assert_non_null(strstr(folded, "[no stack] "));
	assert_non_null(strstr(gprof2dot, "[no stack]"));
}

enum { FRAMES = 9, NODES = 80, SITES = 40, ROUNDS = 100 };

/* Few functions, so that most stacks have some twice. */
static struct recording recursive_recording(uint64_t *seed)
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
		rows->frames[i] = live_frame_pack(1, 0x1000 * i, 0);
	for (uint32_t i = 1; i < NODES; i++)
		rows->nodes[i] =
			(struct node_row){ i - 1 - (uint32_t)(unit_random(seed) % i) / 2,
					   1 + (uint32_t)(unit_random(seed) % (FRAMES - 1)) };
	for (uint32_t i = 1; i < SITES; i++) {
		rows->sites[i] = (struct site_row){ .node = 1 + (uint32_t)(unit_random(seed) %
									   (NODES - 1)) };
		rows->site_counters[i - 1] = (struct site_counters_row){
			.site = i, .calls = 1, .bytes = 1 + unit_random(seed) % 1000
		};
	}
	return r;
}

/* Of each function: what enters it, from callers or as the outermost one. */
static void check_graph(const struct opened *o)
{
	struct graph g;
	struct stack_scratch scratch = { 0 };
	int64_t *entering, self = 0;

	assert_int_equal(graph_build(&g, &o->input, true), 0);
	entering = calloc(g.functions.count, sizeof *entering);
	for (size_t i = 0; i < g.edges.count; i++) {
		entering[g.edges.at[i].callee] += g.edges.at[i].entering;
		assert_true(g.edges.at[i].entering <= g.edges.at[i].total);
	}
	for (size_t i = 0; i < o->selection.count; i++) {
		const struct entry *e = &o->selection.entries[i];
		struct location_chain stack;

		assert_int_equal(entry_stack(&o->input, e, &scratch, &stack), 0);
		entering[stack.at[stack.count - 1]->function] += e->m.total_bytes;
	}
	for (size_t i = 0; i < g.functions.count; i++) {
		self += g.functions.at[i].self;
		assert_int_equal(entering[i], g.functions.at[i].total);
		assert_true(g.functions.at[i].total <= g.whole);
	}
	assert_int_equal(self, g.whole);
	assert_int_equal(g.whole, o->selection.sum.total_bytes);
	free(entering);
	stack_scratch_release(&scratch);
	graph_release(&g);
}

static void what_enters_a_function_is_its_total(void **state)
{
	(void)state;
	uint64_t seed = 20261115;
	const struct query total = { .has_cost = true, .cost = COST_TOTAL };

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct opened o;

		open_recording(&o, recursive_recording(&seed), total);
		check_graph(&o);
		close_recording(&o);
	}
}

static void names_of_any_bytes_become_text(void **state)
{
	(void)state;
	struct buffer text = BUFFER_INIT;
	char *written = NULL;
	size_t size;
	FILE *out = open_memstream(&written, &size);

	buffer_safe(&text, "a\xff"
			   "b\nc\x7f\xc3\xa4\xe2\x82");
	assert_string_equal(buffer_string(&text),
			    "a" UTF8_REPLACEMENT "b?c?\xc3\xa4" UTF8_REPLACEMENT UTF8_REPLACEMENT);
	write_safe(out, "x;y\t\xfe;", ";", ':');
	assert_int_equal(fclose(out), 0);
	assert_string_equal(written, "x:y?" UTF8_REPLACEMENT ":");
	free(written);
	buffer_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_takes_every_recording),
		cmocka_unit_test(a_recording_without_processes_is_no_crash),
		cmocka_unit_test(text_formats_are_as_they_were),
		cmocka_unit_test(a_stack_that_is_gone_keeps_its_bytes),
		cmocka_unit_test(what_enters_a_function_is_its_total),
		cmocka_unit_test(names_of_any_bytes_become_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
