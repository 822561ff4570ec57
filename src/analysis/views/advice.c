/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `advice`: findings that the data proves, each with its site, the evidence and the saving.
 * The rules are the table in rules.c.
 *
 * In text output each has three lines: title, saving and location; the evidence; the remedy.
 */
#include "analysis/advice/findings.h"

#include "base/compiler.h"

#define ADVICE_COLUMN_LIST(X)                                                                      \
	X(ADVICE_RULE, "rule", NULL, UNIT_TEXT)                                                    \
	X(ADVICE_TITLE, "title", NULL, UNIT_TEXT)                                                  \
	X(ADVICE_PROCESS, "pid", NULL, UNIT_ID)                                                    \
	X(ADVICE_SITE, "site", NULL, UNIT_ID)                                                      \
	X(ADVICE_SITES, "sites", NULL, UNIT_COUNT)                                                 \
	X(ADVICE_PROCESSES, "processes", NULL, UNIT_COUNT)                                         \
	X(ADVICE_SAVING_PEAK, "saving_peak_bytes", NULL, UNIT_BYTES)                               \
	X(ADVICE_SAVING_COPIED, "saving_copied_bytes", NULL, UNIT_BYTES)                           \
	X(ADVICE_SAVING_LEAKED, "saving_not_freed_bytes", NULL, UNIT_BYTES)                        \
	X(ADVICE_SAVING_RATE, "saving_bytes_per_second", NULL, UNIT_BYTES_RATE)                    \
	X(ADVICE_SAVING_CALLS, "saving_calls", NULL, UNIT_COUNT)                                   \
	X(ADVICE_SAVING_REMOTE, "saving_cross_thread_frees", NULL, UNIT_COUNT)                     \
	X(ADVICE_SAVING_RESERVED, "saving_reserved_bytes", NULL, UNIT_BYTES)                       \
	X(ADVICE_SAVING_RESIDENT, "saving_resident_bytes", NULL, UNIT_BYTES)                       \
	X(ADVICE_EVIDENCE, "evidence", NULL, UNIT_FIELDS)                                          \
	X(ADVICE_TODO, "todo", NULL, UNIT_TEXT)                                                    \
	X(ADVICE_STACK, "stack", NULL, UNIT_FRAMES)
enum advice_column { ADVICE_COLUMN_LIST(COLUMN_ID) ADVICE_COLUMNS };
static const struct result_column columns[ADVICE_COLUMNS] = { ADVICE_COLUMN_LIST(COLUMN_ROW) };

/* All numbers that rules examine, regardless of the rule. */
static bool evidence_value(struct result *result, const struct tally *t, struct result_value *ret)
{
	const struct site_numbers *n = &t->sums;
	const struct result_field fields[] = {
		{ "calls", value_part(UNIT_COUNT, n->calls, VARIANCE_CALLS, n) },
		{ "total_bytes", value_part(UNIT_BYTES, n->bytes, VARIANCE_BYTES, n) },
		{ "frees", value_part(UNIT_COUNT, n->frees, VARIANCE_FREES, n) },
		{ "temporary_calls", value_part(UNIT_COUNT, t->temporary, VARIANCE_CALLS, n) },
		{ "internal_fragmentation_bytes",
		  value_part(UNIT_BYTES, t->fragmentation_bytes, VARIANCE_WASTE, n) },
		{ "peak_bytes", value_part(UNIT_BYTES, n->peak_bytes, VARIANCE_PEAK_BYTES, n) },
		{ "peak_blocks", value_part(UNIT_COUNT, n->peak_blocks, VARIANCE_PEAK_BLOCKS, n) },
		{ "not_freed_bytes",
		  value_part(UNIT_BYTES, n->live_bytes, VARIANCE_LIVE_BYTES, n) },
		{ "not_freed_blocks",
		  value_part(UNIT_COUNT, n->live_blocks, VARIANCE_LIVE_BLOCKS, n) },
		{ "lifetime_ms", value_part(UNIT_COUNT, t->lifetime_ms, VARIANCE_LIFETIME, n) },
		{ "grown_calls",
		  value_part(UNIT_COUNT, t->reallocs.grown_calls, VARIANCE_CALLS, n) },
		{ "copied_bytes",
		  value_part(UNIT_BYTES, t->reallocs.moved_bytes, VARIANCE_BYTES, n) },
		{ "regrown_calls", value_part(UNIT_COUNT, t->regrown_calls, VARIANCE_CALLS, n) },
		{ "regrown_bytes", value_part(UNIT_BYTES, t->regrown_bytes, VARIANCE_BYTES, n) },
		{ "cross_thread_frees", value_part(UNIT_COUNT, t->elsewhere, VARIANCE_FREES, n) },
		{ "bytes_per_second", value_change(UNIT_BYTES_RATE, t->growing_per_second) },
		{ "confidence_per_mille", value_count(t->confidence_per_mille) },
	};
	const struct result_field *kept = arena_copy(&result->arena, fields, sizeof fields);

	*ret = (struct result_value){ .unit = UNIT_FIELDS, .fields = { kept, ARRAY_SIZE(fields) } };
	return kept != NULL;
}

struct maker {
	struct result *result;
	struct locations *locations;
	struct findings findings;
	uint64_t unjudged_bytes; /* of mappings, which no rule examines */
};

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct maker *m = context;
	const struct finding *f = &m->findings.at[index];
	const struct saving *s = &f->saving;
	const struct site_numbers *n = &f->tally.sums;

	row[ADVICE_RULE] = value_text(f->rule->name);
	row[ADVICE_TITLE] = value_text(f->rule->title);
	row[ADVICE_PROCESS] = value_id(f->process->pid);
	row[ADVICE_SITE] = value_id(f->site->id.v);
	row[ADVICE_SITES] = value_count(f->tally.sites);
	row[ADVICE_PROCESSES] = value_count(f->tally.processes);
	row[ADVICE_SAVING_PEAK] = value_part(UNIT_BYTES, s->peak_bytes, VARIANCE_BYTES, n);
	row[ADVICE_SAVING_COPIED] = value_part(UNIT_BYTES, s->copied_bytes, VARIANCE_BYTES, n);
	row[ADVICE_SAVING_LEAKED] = value_part(UNIT_BYTES, s->leaked_bytes, VARIANCE_LIVE_BYTES, n);
	row[ADVICE_SAVING_RATE] = value_change(UNIT_BYTES_RATE, s->bytes_per_second);
	row[ADVICE_SAVING_CALLS] = value_part(UNIT_COUNT, s->calls, VARIANCE_CALLS, n);
	row[ADVICE_SAVING_REMOTE] = value_part(UNIT_COUNT, s->remote_frees, VARIANCE_FREES, n);
	row[ADVICE_SAVING_RESERVED] = value_part(UNIT_BYTES, s->reserved_bytes, VARIANCE_BYTES, n);
	row[ADVICE_SAVING_RESIDENT] = value_part(UNIT_BYTES, s->resident_bytes, VARIANCE_BYTES, n);
	row[ADVICE_TODO] = value_text(f->rule->todo);
	return evidence_value(m->result, &f->tally, &row[ADVICE_EVIDENCE]) &&
	       stack_value(m->result, m->locations, f->process, f->site->node, &row[ADVICE_STACK]);
}

/* "saves 2.1 GiB of copying, 45,120 calls", or "2.1 GiB not freed", which may be intended */
static void describe_saving(struct words *w, const struct result_value *row)
{
	static const struct {
		enum advice_column column;
		const char *words;
	} parts[] = {
		{ ADVICE_SAVING_PEAK, "{} at the peak" },
		{ ADVICE_SAVING_COPIED, "{} of copying" },
		{ ADVICE_SAVING_LEAKED, "{} not freed" },
		{ ADVICE_SAVING_RESERVED, "{} of address space" },
		{ ADVICE_SAVING_RESIDENT, "{} of RSS" },
		{ ADVICE_SAVING_CALLS, "{} calls" },
		{ ADVICE_SAVING_REMOTE, "{} frees in another thread" },
	};
	const char *before = row[ADVICE_SAVING_LEAKED].number ? "" : "saves ";

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!row[parts[i].column].number)
			continue;
		words_text(w, before);
		text_format(w, parts[i].words, row[parts[i].column]);
		before = ", ";
	}
}

static void describe_finding(struct sentences *s, const struct finding *f,
			     const struct result_value *row)
{
	struct words saving = { 0 }, where = { 0 }, evidence = { 0 }, todo = { 0 };

	describe_saving(&saving, row);
	words_text(&where, location_label(s->result, f->owner));
	if (f->tally.processes > 1) {
		words_text(&where, " in ");
		words_count(&where, f->tally.processes, " process", " processes");
	}
	sentences_add(s, f->rule->name, &saving, &where);
	text_format(&evidence, "{}: ", value_text(f->rule->title));
	f->rule->say(&evidence, f->of, &f->tally);
	sentences_add(s, "", &evidence, NULL);
	text_format(&todo, "-> {}", value_text(f->rule->todo));
	sentences_add(s, "", &todo, NULL);
}

/* "No findings" is no statement about growth that could not be judged. */
static bool is_growth_unknown(const struct findings *findings)
{
	for (const struct advised *of = findings->last; of; of = of->before)
		if (of->growth.verdict == TREND_UNKNOWN)
			return true;
	return false;
}

static bool describe_all(struct result *result, const struct profile *profile,
			 const struct findings *findings, uint64_t unjudged_bytes, size_t shown)
{
	struct sentences s = { .result = result };
	struct words w = { 0 };

	words_headline(&w, result, profile);
	if (findings->count) {
		words_count(&w, findings->count, " finding", " findings");
	} else {
		words_text(&w, "no findings: no rule matches the recorded sites");
		if (is_growth_unknown(findings))
			words_text(&w, "; growth is unknown (--view growth)");
		words_unjudged_mappings(&w, unjudged_bytes);
	}
	sentences_add(&s, NULL, &w, NULL);
	for (size_t i = 0; i < shown; i++)
		describe_finding(&s, &findings->at[i], &result->table.values[i * ADVICE_COLUMNS]);
	if (shown < findings->count) {
		struct words more = { 0 };

		words_count(&more, findings->count - shown, " more finding", " more findings");
		words_text(&more, " (--limit N shows more)");
		sentences_add(&s, "...", &more, NULL);
	}
	return sentences_end(&s);
}

static bool fill(struct maker *m, const struct profile *profile, size_t limit)
{
	size_t rows = MIN(m->findings.count, limit);

	if (!result_fill(m->result, "findings", columns, ADVICE_COLUMNS, rows, fill_row, m))
		return false;
	m->result->table.machines_only = true;
	return describe_all(m->result, profile, &m->findings, m->unjudged_bytes, rows);
}

static int check(const struct query *query, struct error *error)
{
	if (query->at.kind || query->minus.kind || query->has_cost || query->has_axis)
		return error_set(error,
				 "--cost, --at, --minus and --by cannot be combined with the "
				 "view advice: its rules examine the whole run");
	if (query->filters.thread)
		return error_set(error,
				 "--thread cannot be combined with the view advice: its rules "
				 "examine sites of all threads");
	return 0;
}

struct result *analyse_advice(const struct profile *profile, struct locations *locations,
			      const struct query *query, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE, .at = MOMENT_PEAK };
	struct selection selection;
	struct maker m = { .locations = locations };

	if (check(query, error) < 0 ||
	    selection_make(&selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	m.unjudged_bytes = selection_unjudged_mappings(&selection, query);
	m.result = result_begin("advice", profile, query, 2);
	bool done = m.result && findings_make(&m.findings, &selection, locations) == 0 &&
		    fill(&m, profile, query->limit) &&
		    result_notes(m.result, profile, locations,
				 selection.whole.calls ? NULL : nothing_recorded(profile));

	if (done) {
		result_head_add(m.result, "finding_count", value_count(m.findings.count));
		result_head_add(m.result, "unjudged_mapped_bytes", value_bytes(m.unjudged_bytes));
	}
	findings_release(&m.findings);
	selection_release(&selection);
	return result_end(m.result, done, error);
}
