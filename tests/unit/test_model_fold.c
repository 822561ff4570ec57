/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
/*
 * What is left of the stacks of Python programs. A stack is written as a word, outermost frame first: n is native, i the interpreter,
 * p a Python function, m one that imports modules, r the recorder.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "format/live/live_codes.h"
#include "format/recording/rows.h"
#include "model/build.h"
#include "model/frames/fold.h"
#include "util/cleanup.h"

enum { STACKS_MAX = 16, DEPTH_MAX = 32, NODES_MAX = STACKS_MAX * DEPTH_MAX + 1 };

static const char letters[] = "?niprm"; /* by module: 0 is none */
static const char *const paths[] = { "",
				     "/usr/lib/libfoo.so",
				     "/usr/bin/python3.11",
				     "/home/x/app.py",
				     "/usr/lib/libheapgauge.so",
				     "<frozen importlib._bootstrap>" };
enum { MODULES = 6, PYTHON = 3, IMPORT = 5 };

static uint32_t module_of(char letter)
{
	return (uint32_t)(strchr(letters, letter) - letters);
}

/* Each module has one frame, of the same number; those of Python have names, in a file of the module's path. */
static void make_modules(struct process_rows *rows)
{
	static const char texts[] = "\0/home/x/app.py\0<frozen importlib._bootstrap>";
	const uint32_t file_of[MODULES] = { [PYTHON] = 1, [IMPORT] = sizeof "\0/home/x/app.py" };

	rows->modules = calloc(MODULES, sizeof *rows->modules);
	rows->frames = calloc(MODULES, sizeof *rows->frames);
	rows->names = calloc(MODULES, sizeof *rows->names);
	rows->texts = calloc(1, sizeof texts);
	memcpy(rows->texts, texts, sizeof texts);
	rows->text_bytes = sizeof texts;
	rows->module_count = rows->frame_count = MODULES;
	for (uint32_t i = 0; i < MODULES; i++) {
		rows->modules[i].path = strdup(paths[i]);
		rows->frames[i] = live_frame_pack(i, 16, 0);
		if (file_of[i])
			rows->names[rows->name_count++] =
				(struct name_row){ .frame = i, .function = 1, .file = file_of[i] };
	}
}

/* The node of a stack, which shares what it can with those before it. */
static uint32_t node_of(struct process_rows *rows, const char *stack)
{
	uint32_t at = 0;

	for (; *stack; stack++) {
		uint32_t frame = module_of(*stack), i = 1;

		while (i < rows->node_count &&
		       (rows->nodes[i].parent != at || rows->nodes[i].frame != frame))
			i++;
		if (i == rows->node_count)
			rows->nodes[rows->node_count++] =
				(struct node_row){ .parent = at, .frame = frame };
		at = i;
	}
	return at;
}

static struct profile *make_profile(const char *const *stacks, size_t count)
{
	struct recording r = { .processes = calloc(1, sizeof *r.processes), .process_count = 1 };
	struct process_rows *rows = &r.processes[0];

	make_modules(rows);
	rows->nodes = calloc(NODES_MAX, sizeof *rows->nodes);
	rows->node_count = 1;
	rows->sites = calloc(count + 1, sizeof *rows->sites);
	rows->site_count = count + 1;
	for (size_t i = 0; i < count; i++)
		rows->sites[i + 1].node = node_of(rows, stacks[i]);
	struct profile *profile = profile_new(&r, NULL);

	assert_non_null(profile);
	return profile;
}

static void shown_stack(const struct profile *profile, size_t stack, char ret[DEPTH_MAX + 1])
{
	const struct profile_process *p = &profile->processes[0];
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	struct profile_frame *frames;
	node_id node = { fold_node(p, p->rows->sites[stack + 1].node) };
	ptrdiff_t count = profile_stack(p, node, &arena, &frames);

	assert_true(count >= 0 && count <= DEPTH_MAX);
	for (ptrdiff_t i = 0; i < count; i++)
		ret[i] = letters[frames[count - 1 - i].module.v];
	ret[count] = '\0';
}

static const struct fold_options program = { FRAMES_PROGRAM, false }, all = { FRAMES_ALL, false },
				 python = { FRAMES_PYTHON, false },
				 no_imports = { FRAMES_PROGRAM, true },
				 python_no_imports = { FRAMES_PYTHON, true };

/* One after the other of the same profile: every way starts from the rows. */
static void functions_are_left_out_as_asked(void **state)
{
	static const char *const stacks[] = { "niipiipin", "niimmipimmiipi", "nimi", "nin",
					      "niipnpr" };
	static const struct {
		const struct fold_options *options;
		const char *shown[ARRAY_SIZE(stacks)];
	} cases[] = {
		{ &program, { "nppn", "nmmpmmp", "nm", "nn", "npnp" } },
		{ &no_imports, { "nppn", "npp", "nm", "nn", "npnp" } },
		{ &all, { "niipiipin", "niimmipimmiipi", "nimi", "nin", "niipnp" } },
		{ &python, { "pp", "mmpmmp", "m", "n", "pp" } },
		{ &python_no_imports, { "pp", "pp", "m", "n", "pp" } },
		{ &program, { "nppn", "nmmpmmp", "nm", "nn", "npnp" } },
	};
	struct profile *profile = make_profile(stacks, ARRAY_SIZE(stacks));
	char shown[DEPTH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(profile_fold(profile, *cases[i].options, NULL), 0);
		for (size_t j = 0; j < ARRAY_SIZE(stacks); j++) {
			shown_stack(profile, j, shown);
			assert_string_equal(shown, cases[i].shown[j]);
		}
	}
	profile_free(profile);
}

static void every_stack_keeps_a_frame(void **state)
{
	static const struct fold_options *const ways[] = { &program, &all, &python, &no_imports,
							   &python_no_imports };
	uint32_t seed = 21;

	(void)state;
	for (int round = 0; round < 300; round++) {
		char words[STACKS_MAX][DEPTH_MAX];
		const char *stacks[STACKS_MAX];

		for (size_t i = 0; i < STACKS_MAX; i++) {
			size_t depth = 1 + i % 12;

			for (size_t j = 0; j < depth; j++) {
				seed = seed * 1664525 + 1013904223;
				/* Few words, so that stacks share nodes. */
				words[i][j] = "iimpmn"[(seed >> 24) % 6];
			}
			words[i][depth] = '\0';
			stacks[i] = words[i];
		}
		struct profile *profile = make_profile(stacks, STACKS_MAX);

		for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
			assert_int_equal(profile_fold(profile, *ways[w], NULL), 0);
			for (size_t i = 0; i < STACKS_MAX; i++) {
				char shown[DEPTH_MAX + 1];

				shown_stack(profile, i, shown);
				assert_true(shown[0]);
				const char *inside = strchr(shown, 'p');

				if (inside && ways[w]->imports)
					assert_null(strchr(inside, 'm'));
				if (inside && ways[w]->frames != FRAMES_ALL)
					assert_null(strchr(inside, 'i'));
				if (inside && ways[w]->frames == FRAMES_PYTHON)
					assert_null(strchr(inside, 'n'));
			}
		}
		profile_free(profile);
	}
}

/* Rows that were damaged are damaged whatever is shown of the others. */
static void what_is_wrong_with_the_file_stays_known(void **state)
{
	static const char *const stacks[] = { "nip", "nin" };
	struct profile *profile = make_profile(stacks, ARRAY_SIZE(stacks));

	(void)state;
	profile->damaged_rows = 7;
	assert_int_equal(profile_fold(profile, all, NULL), 0);
	assert_int_equal(profile->warnings.count, 1);
	assert_int_equal(profile->warnings.at[0].count, 7);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_left_out_as_asked),
		cmocka_unit_test(every_stack_keeps_a_frame),
		cmocka_unit_test(what_is_wrong_with_the_file_stays_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
