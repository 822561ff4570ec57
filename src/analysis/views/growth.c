/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `growth`: how fast each site grows, and whether it is bounded, judged from the snapshots.
 * trend.h explains the method.
 *
 * Growing sites come first, fastest first; then bounded ones, by live bytes. Sites without a verdict
 * are only counted, because there is nothing to say about each. "No heap site grows" says nothing about
 * mappings and other memory, so the view names them.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "analysis/advice/trend.h"
#include "analysis/advice/verdict.h"
#include "base/checked.h"
#include "base/compiler.h"

struct site_trend {
	const struct entry *entry;
	struct trend trend;
};

#define GROWTH_COLUMN_LIST(X)                                                                      \
	X(GROWTH_PROCESS, "pid", "PID", UNIT_ID)                                                   \
	X(GROWTH_SITE, "site", NULL, UNIT_ID)                                                      \
	X(GROWTH_VERDICT, "verdict", "VERDICT", UNIT_TEXT)                                         \
	X(GROWTH_PER_SECOND, "bytes_per_second", "GROWTH", UNIT_BYTES_RATE)                        \
	X(GROWTH_SLOWEST, "slowest_bytes_per_second", NULL, UNIT_BYTES_RATE)                       \
	X(GROWTH_FASTEST, "fastest_bytes_per_second", NULL, UNIT_BYTES_RATE)                       \
	X(GROWTH_CONFIDENCE, "confidence_per_mille", NULL, UNIT_COUNT)                             \
	X(GROWTH_SURE, NULL, "SURE", UNIT_PERCENT)                                                 \
	X(GROWTH_FIRST, "first_bytes", "FROM", UNIT_BYTES)                                         \
	X(GROWTH_LAST, "last_bytes", "TO", UNIT_BYTES)                                             \
	X(GROWTH_LIVE, "live_bytes", "LIVE", UNIT_BYTES)                                           \
	X(GROWTH_LIVE_BLOCKS, "live_blocks", "BLOCKS", UNIT_COUNT)                                 \
	X(GROWTH_CALLS, "calls", NULL, UNIT_COUNT)                                                 \
	X(GROWTH_FREES, "frees", NULL, UNIT_COUNT)                                                 \
	X(GROWTH_MOMENTS, "snapshots", NULL, UNIT_COUNT)                                           \
	X(GROWTH_FROM_NS, "from_ns", NULL, UNIT_NS)                                                \
	X(GROWTH_TO_NS, "to_ns", NULL, UNIT_NS)                                                    \
	X(GROWTH_LABEL, NULL, "SITE", UNIT_TEXT)                                                   \
	X(GROWTH_STACK, "stack", NULL, UNIT_FRAMES)
enum growth_column { GROWTH_COLUMN_LIST(COLUMN_ID) GROWTH_COLUMNS };
static const struct result_column columns[GROWTH_COLUMNS] = { GROWTH_COLUMN_LIST(COLUMN_ROW) };

struct maker {
	struct result *result;
	const struct profile *profile;
	struct locations *locations;
	const struct query *query;
	struct selection selection;
	VECTOR(struct site_trend) list;
	size_t verdicts[TREND_GROWING + 1];
	struct growth growth; /* over all processes */
	size_t unjudged;      /* processes without a verdict */
	struct trend time;    /* of the process with the most snapshots */
};

static int compare_trends(const void *left, const void *right)
{
	const struct site_trend *a = left, *b = right;
	bool grows = a->trend.verdict == TREND_GROWING;
	int64_t x = grows ? a->trend.per_second : a->trend.last;
	int64_t y = grows ? b->trend.per_second : b->trend.last;

	if (a->trend.verdict != b->trend.verdict)
		return grows ? -1 : 1;
	if (x != y)
		return x < y ? 1 : -1;
	if (a->entry->m.live_bytes != b->entry->m.live_bytes)
		return a->entry->m.live_bytes < b->entry->m.live_bytes ? 1 : -1;
	return a->entry < b->entry ? -1 : 1; /* by process and site */
}

static bool is_of_whole_heap(const struct query *query)
{
	return query->kinds <= KINDS_HEAP && !filters_are_finer_than_processes(&query->filters);
}

/* Ends a process. The heap's trend says nothing about mappings, pools, or a filtered subset of its sites. */
static void close_process(struct maker *m, const struct trends *trends, struct growth *growth)
{
	if (is_of_whole_heap(m->query))
		growth_end(growth, trends);
	else if (growth->unjudged_bytes == 0 && growth->uncertain_sites == 0)
		growth->verdict = TREND_BOUNDED;
	m->growth.uncertain_sites += growth->uncertain_sites;
	m->growth.sites += growth->sites;
	m->growth.per_second = saturating_add_signed(m->growth.per_second, growth->per_second);
	m->unjudged += growth->verdict == TREND_UNKNOWN;
	if (trends->heap.moments > m->time.moments)
		m->time = trends->heap;
	*growth = (struct growth){ 0 };
}

/* Entries are ordered by process. */
static bool judge_all(struct maker *m)
{
	const struct selection *s = &m->selection;
	struct arena scratch = ARENA_INIT;
	struct trends trends = { 0 };
	struct growth growth = { 0 };
	bool done = true;

	for (size_t i = 0; done && i < s->count; i++) {
		const struct entry *e = &s->entries[i];

		if (e->process != trends.process) {
			if (trends.process)
				close_process(m, &trends, &growth);
			arena_release(&scratch);
			done = trends_make(e->process, &scratch, &trends) == 0;
		}
		if (!done)
			break;
		struct site_trend t = { e, trend_of_site(&trends, e->site) };

		growth_add(&growth, e->site, &t.trend);
		m->verdicts[t.trend.verdict]++;
		if (t.trend.verdict != TREND_UNKNOWN)
			done = vector_push(&m->list, t);
	}
	if (done && trends.process)
		close_process(m, &trends, &growth);
	arena_release(&scratch);
	if (done && m->list.count)
		qsort(m->list.at, m->list.count, sizeof *m->list.at, compare_trends);
	return done;
}

static uint64_t not_below_0(int64_t bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* slowest and fastest are the 95 % confidence interval of the slope, which includes the variation of estimates. */
static struct result_value slope(const struct trend *t, bool estimate)
{
	const double widths = 2 * 1.96;
	double error = ((double)t->fastest - (double)t->slowest) / widths;

	return value_estimate(value_change(UNIT_BYTES_RATE, t->per_second),
			      estimate ? error * error : 0);
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct maker *m = context;
	const struct site_trend *t = &m->list.at[index];
	const struct profile_process *p = t->entry->process;
	const struct profile_site *site = t->entry->site;
	const struct site_numbers *n = &site->numbers;
	const struct trend *trend = &t->trend;

	row[GROWTH_PROCESS] = value_id(p->pid);
	row[GROWTH_SITE] = value_id(site->id.v);
	row[GROWTH_VERDICT] = value_text(trend_name(trend->verdict));
	row[GROWTH_PER_SECOND] = slope(trend, n->samples != 0);
	row[GROWTH_SLOWEST] = value_change(UNIT_BYTES_RATE, trend->slowest);
	row[GROWTH_FASTEST] = value_change(UNIT_BYTES_RATE, trend->fastest);
	row[GROWTH_CONFIDENCE] = value_count(trend->confidence_per_mille);
	row[GROWTH_SURE] = value_percent(trend->confidence_per_mille,
					 trend->verdict == TREND_GROWING ? 1000 : 0);
	row[GROWTH_FIRST] = value_part(UNIT_BYTES, not_below_0(trend->first), VARIANCE_BYTES, n);
	row[GROWTH_LAST] = value_part(UNIT_BYTES, not_below_0(trend->last), VARIANCE_BYTES, n);
	row[GROWTH_LIVE] = value_part(UNIT_BYTES, n->live_bytes, VARIANCE_LIVE_BYTES, n);
	row[GROWTH_LIVE_BLOCKS] = value_part(UNIT_COUNT, n->live_blocks, VARIANCE_LIVE_BLOCKS, n);
	row[GROWTH_CALLS] = value_part(UNIT_COUNT, n->calls, VARIANCE_CALLS, n);
	row[GROWTH_FREES] = value_part(UNIT_COUNT, n->frees, VARIANCE_FREES, n);
	row[GROWTH_MOMENTS] = value_count(trend->moments);
	row[GROWTH_FROM_NS] = value_ns(trend->from_ns);
	row[GROWTH_TO_NS] = value_ns(trend->to_ns);
	row[GROWTH_LABEL] = value_text(stack_label(m->result, m->locations, p, site->node));
	return row[GROWTH_LABEL].text &&
	       stack_value(m->result, m->locations, p, site->node, &row[GROWTH_STACK]);
}

static bool fill_table(struct maker *m)
{
	struct result_column shown[GROWTH_COLUMNS];
	size_t rows = MIN(m->list.count, m->query->limit);

	memcpy(shown, columns, sizeof columns);
	if (m->profile->process_count < 2)
		shown[GROWTH_PROCESS].title = NULL;
	if (!result_fill(m->result, "sites", shown, GROWTH_COLUMNS, rows, fill_row, m))
		return false;
	m->result->table.machines_only = rows == 0;
	return result_left_out(m->result, m->list.count - rows, " more site", " more sites");
}

static enum trend_verdict verdict(const struct maker *m)
{
	if (m->growth.per_second > 0)
		return TREND_GROWING;
	return m->verdicts[TREND_BOUNDED] && m->unjudged == 0 ? TREND_BOUNDED : TREND_UNKNOWN;
}

void words_unjudged_mappings(struct words *w, uint64_t bytes)
{
	if (bytes)
		text_format(w, "; up to {} of mappings are not judged (--view growth --kind mmap)",
			    value_bytes(bytes));
}

static void words_unknown(struct words *w, const struct maker *m)
{
	words_text(w, "growth is unknown: ");
	if (m->selection.count == 0) {
		words_text(w, "no such site was recorded");
		words_unjudged_mappings(w, selection_unjudged_mappings(&m->selection, m->query));
		return;
	}
	if (m->time.moments >= TREND_MOMENTS) {
		words_text(w, m->growth.uncertain_sites
				      ? "no site grows for certain, and too few blocks were "
					"sampled to rule it out"
				      : "no site grows for certain, and too much memory is in "
					"sites that changed by few blocks, in few steps, or too "
					"late");
		return;
	}
	words_text(w, arena_printf(&m->result->arena,
				   "a verdict needs %d snapshots in the last two thirds, and there "
				   "%s %zu; record for longer, or more often (--every, "
				   "HEAPGAUGE_EVERY)",
				   TREND_MOMENTS, m->time.moments == 1 ? "is" : "are",
				   m->time.moments));
}

static void describe_judged(struct sentences *s, const struct maker *m)
{
	struct words from = { 0 }, unknown = { 0 };

	words_text(&from, "from ");
	words_count(&from, m->time.moments, " snapshot", " snapshots");
	text_format(&from, " between {} and {}", value_ns(m->time.from_ns),
		    value_ns(m->time.to_ns));
	sentences_add(s, "judged", &from, NULL);
	if (!m->verdicts[TREND_UNKNOWN])
		return;
	words_count(&unknown, m->verdicts[TREND_UNKNOWN], " site", " sites");
	words_text(&unknown, " came too late, changed by too few blocks, or had too few samples");
	sentences_add(s, "unknown", &unknown, NULL);
}

/* The first process whose resident set rose: recorded heap blocks do not explain it. */
static void describe_rss(struct sentences *s, const struct maker *m)
{
	for (size_t i = 0; i < m->profile->process_count; i++) {
		struct words w = { 0 };

		if (!m->selection.processes[i] || !words_rss_rose(&w, &m->profile->processes[i]))
			continue;
		if (m->profile->process_count > 1)
			text_format(&w, " (pid {})", value_id(m->profile->processes[i].pid));
		sentences_add(s, "RSS", &w, NULL);
		return;
	}
}

void words_growth(struct words *w, const struct growth *growth)
{
	text_format(w, "{}/s in ", value_bytes(not_below_0(growth->per_second)));
	if (growth->sites)
		words_count(w, growth->sites, " site", " sites");
	else
		words_text(w, "very many sites, none of which grows for certain");
}

/* "no heap site grows" */
static void words_bounded(struct words *w, const struct maker *m)
{
	static const char *const sites[] = {
		[KINDS_DEFAULT] = "no heap site grows",
		[KINDS_HEAP] = "no heap site grows",
		[KINDS_MMAP] = "no site of mappings grows",
		[KINDS_POOL] = "no site of pools grows",
		[KINDS_ALL] = "no site of heap or mappings grows",
	};

	words_text(w, sites[m->query->kinds]);
	words_unjudged_mappings(w, selection_unjudged_mappings(&m->selection, m->query));
}

static bool describe_all(struct maker *m)
{
	struct sentences s = { .result = m->result };
	struct words w = { 0 };

	words_headline(&w, m->result, m->profile);
	switch (verdict(m)) {
	case TREND_GROWING:
		words_text(&w, "growing ");
		words_growth(&w, &m->growth);
		break;
	case TREND_BOUNDED:
		words_bounded(&w, m);
		break;
	case TREND_UNKNOWN:
		words_unknown(&w, m);
		break;
	}
	sentences_add(&s, NULL, &w, NULL);
	if (verdict(m) != TREND_UNKNOWN)
		describe_judged(&s, m);
	if (verdict(m) != TREND_GROWING)
		describe_rss(&s, m);
	return sentences_end(&s);
}

static void fill_head(struct maker *m)
{
	struct result *r = m->result;

	result_head_add(r, "growing_bytes_per_second",
			verdict(m) == TREND_UNKNOWN
				? value_unknown()
				: value_change(UNIT_BYTES_RATE, m->growth.per_second));
	result_head_add(r, "growing_sites", value_count(m->verdicts[TREND_GROWING]));
	result_head_add(r, "bounded_sites", value_count(m->verdicts[TREND_BOUNDED]));
	result_head_add(r, "unknown_sites", value_count(m->verdicts[TREND_UNKNOWN]));
	result_head_add(r, "heap_verdict", value_text(trend_name(verdict(m))));
	result_head_add(r, "unjudged_mapped_bytes",
			value_bytes(selection_unjudged_mappings(&m->selection, m->query)));
}

static int check(const struct query *query, struct error *error)
{
	if (query->at.kind || query->minus.kind || query->has_cost)
		return error_set(error, "--cost, --at and --minus cannot be combined with the view "
					"growth: it examines all snapshots");
	if (query->filters.thread)
		return error_set(error,
				 "--thread cannot be combined with the view growth: data over "
				 "time is kept per site, not per thread");
	return 0;
}

struct result *analyse_growth(const struct profile *profile, struct locations *locations,
			      const struct query *query, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE, .at = MOMENT_END };
	struct maker m = { .profile = profile, .locations = locations, .query = query };
	if (check(query, error) < 0 ||
	    selection_make(&m.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	m.result = result_begin("growth", profile, query, 6);
	bool done = m.result && judge_all(&m) && fill_table(&m) && describe_all(&m) &&
		    result_notes(m.result, profile, locations,
				 m.selection.whole.calls ? NULL : nothing_recorded(profile));

	if (done)
		fill_head(&m);
	vector_release(&m.list);
	selection_release(&m.selection);
	return result_end(m.result, done, error);
}
