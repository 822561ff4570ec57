/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `modules`: the programs and libraries with code on a stack, by build-id, and how many of their frames have
 * names. Like `health` it visits every frame, so it may take longer than other views.
 *
 * A module in several processes is one row if path and build-id are equal.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "base/compiler.h"
#include "util/cleanup.h"

#define MODULE_COLUMN_LIST(X)                                                                      \
	X(MODULE_FRAMES, "frames", "FRAMES", UNIT_COUNT)                                           \
	X(MODULE_NAMED, "named_frames", "NAMED", UNIT_COUNT)                                       \
	X(MODULE_LINES, "frames_with_lines", "WITH LINES", UNIT_COUNT)                             \
	X(MODULE_PROCESSES, "processes", NULL, UNIT_COUNT)                                         \
	X(MODULE_NAMES_FROM, "names_from", "NAMES FROM", UNIT_TEXT)                                \
	X(MODULE_BUILD_ID, "build_id", "BUILD-ID", UNIT_TEXT)                                      \
	X(MODULE_PATH, "module", "MODULE", UNIT_TEXT)
enum module_column { MODULE_COLUMN_LIST(COLUMN_ID) MODULE_COLUMNS };
static const struct result_column columns[MODULE_COLUMNS] = { MODULE_COLUMN_LIST(COLUMN_ROW) };

struct row {
	struct profile_module module;
	uint64_t frames, named, lines, processes;
};

struct maker {
	struct result *result;
	const struct profile *profile;
	struct locations *locations;
	const bool *wanted;
	VECTOR(struct row) rows;
};

static bool is_same(const struct profile_module *a, const struct profile_module *b)
{
	return strcmp(a->path, b->path) == 0 && a->build_id.size == b->build_id.size &&
	       (a->build_id.size == 0 ||
		memcmp(a->build_id.data, b->build_id.data, a->build_id.size) == 0);
}

/* The module's row, created on first use; SIZE_MAX if out of memory. */
static size_t row_of(struct maker *m, const struct profile_module *module)
{
	for (size_t i = 0; i < m->rows.count; i++)
		if (is_same(&m->rows.at[i].module, module))
			return i;
	return vector_push(&m->rows, ((struct row){ .module = *module })) ? m->rows.count - 1
									  : SIZE_MAX;
}

static bool count_frame(struct maker *m, const struct profile_process *p,
			struct profile_frame frame, struct row *row)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct named_stack named;

	if (names_frame(locations_names(m->locations), p, frame, &scratch, &named) < 0)
		return false;
	const struct named_frame *own = &named.at[named.count - 1];

	row->frames++;
	row->named += own->named;
	row->lines += own->line != 0;
	return true;
}

static bool add_process(struct maker *m, const struct profile_process *p)
{
	AUTO_FREE size_t *row_by_module = calloc(p->module_count + 1, sizeof *row_by_module);

	if (!row_by_module)
		return false;
	names_prepare(locations_names(m->locations), p);
	for (uint32_t i = 0; i < p->frame_count; i++) {
		struct profile_frame frame = profile_frame_at(p, (frame_id){ i });
		uint32_t module = frame.module.v;

		if (frame.mark != MARK_NONE || module == 0 || module >= p->module_count)
			continue;
		if (row_by_module[module] == 0) {
			size_t row = row_of(m, &p->modules[module]);

			if (row == SIZE_MAX)
				return false;
			m->rows.at[row].processes++;
			row_by_module[module] = row + 1;
		}
		if (!count_frame(m, p, frame, &m->rows.at[row_by_module[module] - 1]))
			return false;
	}
	return true;
}

static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->frames != b->frames)
		return a->frames < b->frames ? 1 : -1;
	return strcmp(a->module.path, b->module.path);
}

static const char *names_from(const struct row *row)
{
	if (row->lines)
		return "debug information";
	return row->named ? "symbol table" : "nothing";
}

static const char *build_id_text(struct result *result, struct span id)
{
	char *text = ARENA_ARRAY(&result->arena, char, id.size * 2 + 1);

	for (size_t i = 0; text && i < id.size; i++) {
		text[2 * i] = "0123456789abcdef"[id.data[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[id.data[i] & 15];
	}
	return text;
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct maker *m = context;
	const struct row *r = &m->rows.at[index];

	row[MODULE_FRAMES] = value_count(r->frames);
	row[MODULE_NAMED] = value_count(r->named);
	row[MODULE_LINES] = value_count(r->lines);
	row[MODULE_PROCESSES] = value_count(r->processes);
	row[MODULE_NAMES_FROM] = value_text(names_from(r));
	row[MODULE_BUILD_ID] = value_text(build_id_text(m->result, r->module.build_id));
	row[MODULE_PATH] = value_text(r->module.path);
	return row[MODULE_BUILD_ID].text;
}

static bool fill_table(struct maker *m, size_t limit)
{
	size_t rows = MIN(m->rows.count, limit);

	return result_fill(m->result, "modules", columns, MODULE_COLUMNS, rows, fill_row, m) &&
	       result_left_out(m->result, m->rows.count - rows, " more module", " more modules");
}

static bool say(struct maker *m)
{
	struct sentences s = { .result = m->result };
	struct words w = { 0 };

	words_headline(&w, m->result, m->profile);
	words_count(&w, m->rows.count, " module", " modules");
	sentences_add(&s, NULL, &w, NULL);
	return sentences_end(&s);
}

struct result *analyse_modules(const struct profile *profile, struct locations *locations,
			       const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct maker m = { .profile = profile,
			   .locations = locations,
			   .wanted = processes_choose(profile, query, &scratch, error) };
	bool done = true;

	if (!m.wanted)
		return NULL;
	m.result = result_begin("modules", profile, query, 0);
	for (size_t i = 0; m.result && done && i < profile->process_count; i++)
		if (m.wanted[i])
			done = add_process(&m, &profile->processes[i]);
	if (m.rows.count)
		qsort(m.rows.at, m.rows.count, sizeof *m.rows.at, compare_rows);
	done = m.result && done && fill_table(&m, query->limit) && say(&m) &&
	       result_notes(m.result, profile, NULL, NULL);
	vector_release(&m.rows);
	return result_end(m.result, done, error);
}
