/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `globals`: variables in the writable data of the program and its libraries, the largest first. Thread-local ones count
 * once for each thread. What a module has no symbols for is one row, so that the rows add up to its writable data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/query/selection.h"
#include "analysis/result/build.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/frames/globals.h"
#include "util/cleanup.h"
#include "util/files.h"

#define GLOBAL_COLUMN_LIST(X)                                                                      \
	X(GLOBAL_PROCESS, "pid", "PID", UNIT_ID)                                                   \
	X(GLOBAL_BYTES, "bytes", "BYTES", UNIT_BYTES)                                              \
	X(GLOBAL_SHARE, NULL, "SHARE", UNIT_PERCENT)                                               \
	X(GLOBAL_RESIDENT, "resident_bytes", "RESIDENT", UNIT_BYTES)                               \
	X(GLOBAL_SIZE, "size_bytes", NULL, UNIT_BYTES)                                             \
	X(GLOBAL_COPIES, "copies", "COPIES", UNIT_COUNT)                                           \
	X(GLOBAL_SECTION, "section", "SECTION", UNIT_TEXT)                                         \
	X(GLOBAL_LABEL, NULL, "VARIABLE", UNIT_TEXT)                                               \
	X(GLOBAL_MODULE_NAME, NULL, "MODULE", UNIT_TEXT)                                           \
	X(GLOBAL_NAME, "variable", NULL, UNIT_TEXT)                                                \
	X(GLOBAL_FILE, "file", NULL, UNIT_TEXT)                                                    \
	X(GLOBAL_LINE, "line", NULL, UNIT_ID)                                                      \
	X(GLOBAL_MODULE, "module", NULL, UNIT_TEXT)
enum global_column { GLOBAL_COLUMN_LIST(COLUMN_ID) GLOBAL_COLUMNS };

struct row {
	const struct profile_process *process;
	const struct profile_variable *variable;
};

struct globals_view {
	struct result *result;
	const struct profile *profile;
	const struct query *query;
	struct arena *arena; /* the variables */
	VECTOR(struct row) rows;
	uint64_t bytes, resident_bytes, tls_bytes, rss_bytes, named;
	size_t unread, running; /* processes that have none; those of them that still run */
	size_t read;		/* processes that have any */
	const struct profile_process *last;
	uint64_t at_ns; /* when those of the last were read, since its start */
};

static uint64_t bytes_of(const struct profile_variable *variable)
{
	return saturating_mul(variable->bytes, variable->copies);
}

static bool add_process(struct globals_view *v, struct locations *locations,
			const struct profile_process *p)
{
	struct profile_globals globals;

	if (profile_globals(p, locations_names(locations), v->arena, &globals) < 0)
		return false;
	v->unread += globals.count == 0 && p->end != PROFILE_RUNNING;
	v->running += globals.count == 0 && p->end == PROFILE_RUNNING;
	if (globals.count > 0) {
		v->read++;
		v->last = p;
		v->at_ns = globals.at_ns;
	}
	v->rss_bytes = saturating_add(v->rss_bytes, p->memory.rss_bytes);
	for (size_t i = 0; i < globals.count; i++) {
		const struct profile_variable *variable = &globals.at[i];
		bool is_tls = strcmp(variable->section, "tls") == 0;

		if (!vector_push(&v->rows, ((struct row){ p, variable })))
			return false;
		v->named += variable->name != NULL;
		v->bytes = saturating_add(v->bytes, bytes_of(variable));
		v->tls_bytes = saturating_add(v->tls_bytes, is_tls ? bytes_of(variable) : 0);
		v->resident_bytes = saturating_add(v->resident_bytes, variable->resident_bytes);
	}
	return true;
}

static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;
	uint64_t a_bytes = bytes_of(a->variable), b_bytes = bytes_of(b->variable);

	if (a_bytes != b_bytes)
		return a_bytes < b_bytes ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->variable < b->variable ? -1 : 1;
}

/* "table (cache.c:12)" */
static const char *label_of(struct arena *arena, const struct profile_variable *variable)
{
	if (!variable->name)
		return "[no symbols]";
	if (!variable->file || !variable->line)
		return variable->name;
	return arena_printf(arena, "%s (%s:%u)", variable->name, path_base(variable->file),
			    variable->line);
}

static bool fill_row(void *context, size_t index, struct result_value *to)
{
	struct globals_view *v = context;
	const struct profile_variable *variable = v->rows.at[index].variable;

	to[GLOBAL_PROCESS] = value_id(v->rows.at[index].process->pid);
	to[GLOBAL_BYTES] = value_bytes(bytes_of(variable));
	to[GLOBAL_SHARE] = value_percent(bytes_of(variable), v->bytes);
	to[GLOBAL_RESIDENT] =
		variable->resident_known ? value_bytes(variable->resident_bytes) : value_unknown();
	to[GLOBAL_SIZE] = value_bytes(variable->bytes);
	to[GLOBAL_COPIES] = value_count(variable->copies);
	to[GLOBAL_SECTION] = value_text(variable->section);
	to[GLOBAL_LABEL] = value_text(label_of(&v->result->arena, variable));
	to[GLOBAL_MODULE_NAME] = value_text(path_base(variable->module));
	to[GLOBAL_NAME] = value_text(variable->full);
	to[GLOBAL_FILE] = value_text(variable->file);
	to[GLOBAL_LINE] = variable->line ? value_id(variable->line) : value_unknown();
	to[GLOBAL_MODULE] = value_text(variable->module);
	return to[GLOBAL_LABEL].text;
}

static bool fill_table(struct globals_view *v)
{
	struct result_column columns[] = { GLOBAL_COLUMN_LIST(COLUMN_ROW) };
	size_t shown = MIN(v->rows.count, v->query->limit);

	if (v->profile->process_count == 1)
		columns[GLOBAL_PROCESS].title = NULL;
	return result_fill(v->result, "variables", columns, GLOBAL_COLUMNS, shown, fill_row, v) &&
	       result_left_out(v->result, v->rows.count - shown, " more row", " more rows");
}

static bool say(struct globals_view *v)
{
	struct sentences sentences = { .result = v->result };
	struct words headline = { 0 }, resident = { 0 }, unread = { 0 }, running = { 0 };

	words_headline(&headline, v->result, v->profile);
	if (v->rows.count) {
		text_format(&headline, "{} in ", value_bytes(v->bytes));
		words_count(&headline, v->named, " variable", " variables");
	} else {
		words_text(&headline, "variables not known");
	}
	sentences_add(&sentences, NULL, &headline, NULL);
	if (v->rows.count) {
		text_format(&resident, "{}, {} of the RSS", value_bytes(v->resident_bytes),
			    value_percent(v->resident_bytes, v->rss_bytes));
		if (v->read == 1)
			words_time(&resident, v->last, v->at_ns);
		else
			words_text(&resident, " when each process was last looked at");
		if (v->tls_bytes)
			text_format(&resident, ", besides {} of thread-local variables",
				    value_bytes(v->tls_bytes));
		sentences_add(&sentences, "resident", &resident, NULL);
	}
	if (v->unread) {
		words_count(&unread, v->unread, " process", " processes");
		words_text(&unread,
			   v->unread == 1
				   ? " ended before its variables were read, or was not "
				   : " ended before their variables were read, or were not ");
		words_text(&unread, "recorded by 'heapgauge record' of this version");
		sentences_add(&sentences, "unknown", &unread, NULL);
	}
	if (v->running) {
		words_count(&running, v->running, " process", " processes");
		words_text(&running,
			   " running: only 'report --pid' and 'record' read the variables");
		sentences_add(&sentences, "unknown", &running, NULL);
	}
	return sentences_end(&sentences);
}

struct result *analyse_globals(const struct profile *profile, struct locations *locations,
			       const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct globals_view v = { .profile = profile, .query = query, .arena = &scratch };
	const bool *wanted = processes_choose(profile, query, &scratch, error);
	bool done = true;

	if (!wanted)
		return NULL;
	v.result = result_begin("globals", profile, query, 5);
	for (size_t i = 0; v.result && done && i < profile->process_count; i++)
		if (wanted[i])
			done = add_process(&v, locations, &profile->processes[i]);
	if (v.rows.count)
		qsort(v.rows.at, v.rows.count, sizeof *v.rows.at, compare_rows);
	if (v.result) {
		bool known = v.rows.count != 0;

		result_head_add(v.result, "bytes", known ? value_bytes(v.bytes) : value_unknown());
		result_head_add(v.result, "resident_bytes",
				known ? value_bytes(v.resident_bytes) : value_unknown());
		result_head_add(v.result, "tls_bytes",
				known ? value_bytes(v.tls_bytes) : value_unknown());
		result_head_add(v.result, "rss_bytes", value_bytes(v.rss_bytes));
		result_head_add(v.result, "at_ns",
				v.read == 1 ? value_ns(v.at_ns) : value_unknown());
	}
	done = v.result && done && fill_table(&v) && say(&v) &&
	       result_notes(v.result, profile, NULL, NULL);
	vector_release(&v.rows);
	return result_end(v.result, done, error);
}
