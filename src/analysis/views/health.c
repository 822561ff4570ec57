/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `health`: how reliable the numbers are. Everything that was counted as lost, truncated or
 * unknown, with its meaning for the user; the recorder's own memory; and modules that could not name
 * their frames.
 *
 * Other views report only what concerns their rows; this one visits every stack, so it may take
 * longer.
 */
#include <string.h>

#include "analysis/advice/coverage.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

#define HEALTH_COLUMN_LIST(X)                                                                      \
	X(HEALTH_PROCESS, "pid", "PID", UNIT_ID)                                                   \
	X(HEALTH_ABOUT, "about", "ABOUT", UNIT_TEXT)                                               \
	X(HEALTH_NAME, "name", NULL, UNIT_TEXT)                                                    \
	X(HEALTH_COUNTED, "count", "COUNT", UNIT_COUNT)                                            \
	X(HEALTH_MEANING, "meaning", "WHAT IT MEANS", UNIT_TEXT)
enum health_column { HEALTH_COLUMN_LIST(COLUMN_ID) HEALTH_COLUMNS };
static const struct result_column columns[HEALTH_COLUMNS] = { HEALTH_COLUMN_LIST(COLUMN_ROW) };

struct maker {
	struct result *result;
	const struct profile *profile;
	const bool *wanted;
	VECTOR(struct result_value) values;
	uint64_t lost; /* number of kinds of loss */
	bool failed;
};

static void add_notes(struct maker *m, uint64_t process, const char *about,
		      struct profile_notes notes)
{
	for (size_t i = 0; i < notes.count; i++) {
		const struct result_value row[HEALTH_COLUMNS] = {
			[HEALTH_PROCESS] = process ? value_id(process) : value_unknown(),
			[HEALTH_ABOUT] = value_text(about),
			[HEALTH_NAME] = value_text(notes.at[i].name),
			[HEALTH_COUNTED] = value_count(notes.at[i].count),
			[HEALTH_MEANING] = value_text(notes.at[i].text),
		};

		for (size_t j = 0; j < HEALTH_COLUMNS; j++)
			if (!vector_push(&m->values, row[j]))
				m->failed = true;
	}
}

/* Symbolizes every stack, to find frames without a name. */
static bool name_everything(const struct maker *m, struct locations *locations)
{
	for (size_t i = 0; i < m->profile->process_count; i++) {
		const struct profile_process *p = &m->profile->processes[i];

		/* Every node is a stack, so its innermost frame is enough. */
		for (uint32_t n = 1; m->wanted[i] && n < p->node_count; n++)
			if (!locations_of(locations, p, (node_id){ n }).at)
				return false;
	}
	return true;
}

/* Memory of the process that is not in the recording. */
static void add_coverage(struct maker *m, const struct profile_process *p)
{
	struct coverage c = coverage_of_process(m->profile, p);
	const struct profile_note note = { "unrecorded_memory",
					   "bytes of anonymous memory are in no recorded block",
					   c.anonymous_bytes - c.explained_bytes };

	if (coverage_is_low(&c))
		add_notes(m, p->pid, "process", (struct profile_notes){ &note, 1 });
}

static bool fill_table(struct maker *m, struct locations *locations, size_t limit)
{
	struct result *result = m->result;
	struct profile_notes unnamed;
	struct result_column shown[HEALTH_COLUMNS];

	memcpy(shown, columns, sizeof columns);
	if (!name_everything(m, locations) ||
	    names_notes(locations_names(locations), &result->arena, &unnamed) < 0)
		return false;
	add_notes(m, 0, "file", m->profile->warnings);
	for (size_t i = 0; i < m->profile->process_count; i++) {
		if (!m->wanted[i])
			continue;
		add_notes(m, m->profile->processes[i].pid, "process",
			  m->profile->processes[i].health);
		add_coverage(m, &m->profile->processes[i]);
	}
	m->lost = m->values.count / HEALTH_COLUMNS;
	add_notes(m, 0, "names", unnamed);
	if (m->failed)
		return false;
	if (m->profile->process_count < 2)
		shown[HEALTH_PROCESS].title = NULL;
	size_t rows = m->values.count / HEALTH_COLUMNS, kept = MIN(rows, limit);

	return result_take(result, "health", shown, HEALTH_COLUMNS, kept, m->values.at) &&
	       result_left_out(result, rows - kept, " more", " more");
}

static void describe_headline(struct maker *m, struct sentences *s)
{
	struct words w = { 0 };

	words_headline(&w, m->result, m->profile);
	if (m->lost)
		words_count(&w, m->lost, " thing to know", " things to know");
	else
		words_text(&w, "nothing lost");
	sentences_add(s, NULL, &w, NULL);
}

static void describe_recorder(struct maker *m, struct sentences *s)
{
	uint64_t own = 0, rss = 0, stacks = 0;
	struct words w = { 0 };

	for (size_t i = 0; i < m->profile->process_count; i++) {
		const struct profile_process *p = &m->profile->processes[i];

		if (!m->wanted[i])
			continue;
		own = saturating_add(own, p->own_bytes);
		rss = saturating_add(rss, p->peak_rss_bytes);
		stacks = saturating_add(stacks, p->stacks);
	}
	result_head_add(m->result, "recorder_bytes", value_bytes(own));
	result_head_add(m->result, "peak_rss_bytes", value_bytes(rss));
	text_format(&w, "{} of memory for ", value_bytes(own));
	words_count(&w, stacks, " stack", " stacks");
	if (rss)
		text_format(&w, ", beside {} of RSS at most", value_bytes(rss));
	sentences_add(s, "recorder", &w, NULL);
}

static void describe_own(struct maker *m, struct sentences *s)
{
	AUTO_FREE char *rule = own_rule_describe(&m->profile->own);
	const char *text = rule ? arena_strdup(&m->result->arena, rule) : NULL;
	struct words w = { 0 };

	result_head_add(m->result, "own_code", value_text(text ? text : ""));
	words_text(&w, text ? text : "");
	sentences_add(s, "own code", &w, NULL);
}

static void describe_names(struct sentences *s, size_t modules)
{
	struct words w = { 0 };

	if (!modules)
		return;
	words_count(&w, modules, " module", " modules");
	words_text(&w, " without names for some frames -> heapgauge doctor");
	sentences_add(s, "names", &w, NULL);
}

struct result *analyse_health(const struct profile *profile, struct locations *locations,
			      const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const bool *wanted = processes_choose(profile, query, &scratch, error);

	if (!wanted)
		return NULL;
	struct maker m = { .result = result_begin("health", profile, query, 4),
			   .profile = profile,
			   .wanted = wanted };
	struct sentences s = { .result = m.result };

	bool done = m.result && fill_table(&m, locations, query->limit);

	if (done) {
		result_head_add(m.result, "nothing_lost", value_flag(m.lost == 0));
		describe_headline(&m, &s);
		describe_recorder(&m, &s);
		describe_own(&m, &s);
		describe_names(&s, m.values.count / HEALTH_COLUMNS - m.lost);
		done = sentences_end(&s);
	}
	vector_release(&m.values);
	return result_end(m.result, done, error);
}
