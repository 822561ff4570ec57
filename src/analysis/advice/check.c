/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a recording against budgets.
 *
 * A process that lost allocations never counts as within a budget: the uncounted ones may be those that
 * exceed it. It can still exceed one. Nor is there a verdict if the limit is within the confidence
 * interval of an estimate.
 */
#include "analysis/advice/check.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/advice/coverage.h"
#include "analysis/result/build.h"
#include "analysis/query/comparison.h"
#include "analysis/result/imported.h"
#include "analysis/query/selection.h"
#include "analysis/advice/trend.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "base/confidence.h"
#include "model/estimates.h"
#include "model/image/reach.h"
#include "model/missed.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/units.h"

const struct check_measure_row check_measures[CHECK_MEASURES + 1] = {
	[CHECK_PEAK] = { "peak", "max-peak", "peak", UNIT_BYTES },
	[CHECK_LEAKED] = { "leaked", "max-leaked", "not freed at exit", UNIT_BYTES },
	[CHECK_LEAKED_BLOCKS] = { "leaked blocks", "max-leaked-blocks", "blocks not freed at exit",
				  UNIT_COUNT },
	[CHECK_UNREACHABLE] = { "unreachable", "max-unreachable", "unreachable", UNIT_BYTES },
	[CHECK_CALLS] = { "calls", "max-calls", "calls", UNIT_COUNT },
	[CHECK_TOTAL] = { "total", "max-total", "total", UNIT_BYTES },
	[CHECK_TEMPORARY] = { "temporary", "max-temporary", "temporary", UNIT_COUNT },
	[CHECK_GROWTH] = { "growth", "max-growth", "growth", UNIT_BYTES_RATE },
};

/* The query for each measure; growth has none. */
static const struct {
	enum cost_id cost;
	enum moment_kind at;
} questions[CHECK_MEASURES] = {
	[CHECK_PEAK] = { COST_LIVE, MOMENT_PEAK },
	[CHECK_LEAKED] = { COST_LIVE, MOMENT_END },
	[CHECK_LEAKED_BLOCKS] = { COST_BLOCKS, MOMENT_END },
	[CHECK_UNREACHABLE] = { COST_LIVE, MOMENT_END },
	[CHECK_CALLS] = { COST_CALLS, MOMENT_DEFAULT },
	[CHECK_TOTAL] = { COST_TOTAL, MOMENT_DEFAULT },
	[CHECK_TEMPORARY] = { COST_TEMPORARY, MOMENT_DEFAULT },
};

struct judge {
	struct check *check;
	const struct profile *profile;
	struct locations *locations;
	const struct check_options *options;
	struct error *error;
	const bool *chosen; /* by process: whether it is to be checked */
	bool *judged;	    /* by process: whether it was */
};

static const char *program_of(const struct profile_process *p)
{
	return p->exe[0] ? path_base(p->exe) : "?";
}

/* The recording reduced to one process: a query about one of thousands must not visit the others. */
static struct profile alone(const struct profile *profile, const struct profile_process *p)
{
	struct profile one = *profile;

	one.processes = p;
	one.process_count = 1;
	return one;
}

/* The query for one process. */
static struct query question(const struct judge *j, enum check_measure measure)
{
	struct query q = *j->options->query;

	q.limit = SIZE_MAX;
	q.has_cost = true;
	q.cost = questions[measure].cost;
	q.at = (struct moment){ .kind = questions[measure].at };
	q.minus = (struct moment){ 0 };
	q.filters.process = NULL;
	/* Memory that libraries keep counts in all other measures. */
	q.filters.builtin &= measure == CHECK_LEAKED || measure == CHECK_LEAKED_BLOCKS ||
			     measure == CHECK_UNREACHABLE;
	return q;
}

/* A measure and, for an estimate, its uncertainty. */
struct measured {
	int64_t value;
	bool is_unknown, estimate;
	double error, factor; /* standard error, and its multiple for 95 % confidence */
	double bias;	      /* upper bound for the mean bias (too high) */
	double unrecorded;    /* what may exist without any sample */
};

static int growth_of(const struct profile_process *p, struct measured *ret, const char **ret_why,
		     struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct trends trends;

	if (trends_make(p, &scratch, &trends) < 0)
		return error_set(error, "out of memory");
	/* A verdict of growth has a 1 in 20 chance of error, whatever made the numbers vary. */
	const struct growth growth = trends_growth(&trends);

	ret->value = growth.per_second;
	ret->is_unknown = growth.verdict == TREND_UNKNOWN;
	if (ret->is_unknown)
		*ret_why = trends.heap.moments < TREND_MOMENTS
				   ? "too few snapshots to detect growth: record for longer, or "
				     "with a smaller --every"
				   : "no trend is certain: heapgauge report --view growth lists "
				     "what was judged";
	else if (growth.is_partial)
		*ret_why = "much memory is in sites whose trend is unknown: heapgauge report "
			   "--view growth lists what was judged";
	return 0;
}

/* A heap profile of another tool that may have been sampled. */
static bool is_sampling_unknown(const struct profile_process *p)
{
	return strcmp(p->mode, "unknown") == 0;
}

static bool knows(const struct profile *profile, enum check_measure which)
{
	if (which == CHECK_GROWTH)
		return !profile_is_imported(profile);
	return imported_knows(profile, questions[which].cost, questions[which].at);
}

/* What one stack adds to a measure. */
static int64_t part_of(const struct selection *s, enum check_measure which, const struct entry *e)
{
	if (which != CHECK_UNREACHABLE)
		return selection_cost(s, &e->m);
	struct profile_reach reach = profile_site_reach(e->process, e->site->id);

	return (int64_t)MIN(reach_unreachable_bytes(&reach), (uint64_t)INT64_MAX);
}

static int64_t unreachable_of(const struct selection *s)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->count; i++)
		sum = saturating_add_signed(sum, part_of(s, CHECK_UNREACHABLE, &s->entries[i]));
	return sum;
}

/* Whether what is live at the end of the recording may be freed later. */
static bool is_too_early(const struct profile_process *p, enum check_measure which)
{
	return (which == CHECK_LEAKED || which == CHECK_LEAKED_BLOCKS) &&
	       p->end == PROFILE_RUNNING && !p->imported;
}

static const char unrecorded_allocator[] = "an allocator linked into the program was not recorded";

/* Why nothing of what is measured was recorded; NULL: it was. */
static const char *why_unknown(const struct profile *profile, const struct profile_process *p,
			       enum check_measure which)
{
	if (!knows(profile, which))
		return "a heap profile of another tool does not have it";
	if (which == CHECK_UNREACHABLE && !profile_has_reach(p))
		return "the process has no image: heapgauge image PID, or record --image";
	if (strcmp(p->mode, "dormant") == 0)
		return "the recorder was dormant (--mode exact records)";
	if (is_too_early(p, which))
		return "the process was still running: what was live may be freed";
	return NULL;
}

/* Computes the measure for one process. */
static int measure(const struct judge *j, const struct profile *profile,
		   const struct profile_process *p, enum check_measure which, struct measured *ret,
		   const char **ret_why)
{
	const struct profile one = alone(profile, p);
	struct selection s;

	*ret_why = why_unknown(profile, p, which);
	if (*ret_why) {
		ret->is_unknown = true;
		return 0;
	}
	if (which == CHECK_GROWTH)
		return growth_of(p, ret, ret_why, j->error);
	if (linked_in_is_malloc(p))
		*ret_why = unrecorded_allocator;
	if (is_sampling_unknown(p))
		*ret_why = "the file does not say whether it was sampled";
	struct query q = question(j, which);

	if (selection_make(&s, &one, j->locations, &q, (struct view_defaults){ 0 }, j->error) < 0)
		return -1;
	*ret = (struct measured){
		.value = which == CHECK_UNREACHABLE ? unreachable_of(&s)
						    : selection_cost(&s, &s.sum),
		.estimate = profile_is_sampled(p),
		.error = sqrt(fabs(cost_variance(s.cost, &s.sum, s.duration_ns))),
		.factor = confidence_factor((uint64_t)s.sum.variance.samples),
		.bias = which == CHECK_PEAK ? (double)p->peak_bias_bytes : 0,
	};
	/* Blocks that are never sampled are small, possibly one byte each. Without any sample, even the interval is unknown. */
	if (ret->estimate)
		ret->unrecorded = p->interval ? (double)p->interval * CONFIDENCE_UNSEEN_INTERVALS
					      : (double)INT64_MAX;
	/* An exact count, not an estimate. */
	if (p->counts_all && !filters_are_finer_than_processes(&q.filters)) {
		if (which == CHECK_CALLS)
			*ret = (struct measured){ .value = (int64_t)MIN(p->all_calls,
									(uint64_t)INT64_MAX) };
		if (which == CHECK_TOTAL)
			*ret = (struct measured){ .value = (int64_t)MIN(p->all_bytes,
									(uint64_t)INT64_MAX) };
	}
	selection_release(&s);
	return 0;
}

struct by_part {
	const struct selection *selection;
	enum check_measure measure;
};

static int by_cost(const void *left, const void *right, void *context)
{
	const struct by_part *by = context;
	int64_t a = part_of(by->selection, by->measure, left);
	int64_t b = part_of(by->selection, by->measure, right);

	return a < b ? 1 : a > b ? -1 : 0;
}

/* The responsible stacks: those that grew most since the baseline if there is one, else the heaviest. */
static int blame(const struct judge *j, const struct profile_process *p,
		 const struct profile_process *old, struct check_row *row)
{
	const struct profile now = alone(j->profile, p);
	const struct profile then = old ? alone(j->options->baseline, old) : now;
	const struct comparison against = { .before = &(const struct profile *){ &then },
					    .before_count = 1,
					    .after = &(const struct profile *){ &now },
					    .after_count = 1 };
	struct selection s;
	/* location_label needs a result for its arena, which is the check's here. */
	struct result words = { .arena = j->check->arena };

	if (row->measure == CHECK_GROWTH)
		return 0;
	struct query q = question(j, row->measure);

	q.against = old ? &against : NULL;
	if (selection_make(&s, &now, j->locations, &q, (struct view_defaults){ 0 }, j->error) < 0)
		return -1;
	if (s.count)
		qsort_r(s.entries, s.count, sizeof *s.entries, by_cost,
			&(struct by_part){ &s, row->measure });
	int status = 0;

	for (size_t i = 0; i < s.count && row->responsible_count < CHECK_RESPONSIBLE; i++) {
		const struct entry *e = &s.entries[i];
		int64_t value = part_of(&s, row->measure, e);

		if (value <= 0)
			break;
		const struct location *owner = stack_owner(j->locations, e->process, e->site->node);
		const char *label = location_label(&words, owner);

		if (!label)
			status = error_set(j->error, "out of memory");
		row->responsible[row->responsible_count].label = label ? label : "?";
		if (owner && owner->frame.file && owner->frame.line) {
			row->responsible[row->responsible_count].file =
				arena_printf(&words.arena, "%s", owner->frame.file);
			row->responsible[row->responsible_count].line = owner->frame.line;
		}
		row->responsible[row->responsible_count++].value = value;
	}
	j->check->arena = words.arena;
	selection_release(&s);
	return status;
}

static bool has_note(struct profile_notes notes, const char *const *names, size_t count)
{
	for (size_t i = 0; i < notes.count; i++)
		for (size_t k = 0; k < count; k++)
			if (strcmp(notes.at[i].name, names[k]) == 0)
				return true;
	return false;
}

/* Whether calls or frees were missed; notes about stacks, details or the clock do not affect a budget. */
static bool lost_calls(const struct profile_process *p)
{
	static const char *const losses[] = {
		"reentrant_calls",  "abandoned_hooks", "early_calls",	     "repaired_blocks",
		"untracked_blocks", "lock_timeouts",   "unregistered_calls", "lost_samples",
	};

	return has_note(p->health, losses, ARRAY_SIZE(losses));
}

/* Whether a part of the file, or of the core file, is missing, and with it numbers, which are low or 0 then. */
static bool is_damaged(const struct profile *profile, const struct profile_process *p)
{
	static const char *const of_file[] = { "cut_bytes", "bad_chunks", "unfinished",
					       "damaged_rows" };
	static const char *const of_process[] = { "damaged_tables" };

	return has_note(profile->warnings, of_file, ARRAY_SIZE(of_file)) ||
	       has_note(p->health, of_process, ARRAY_SIZE(of_process));
}

static int push(struct judge *j, const struct check_row *row)
{
	if (!vector_push(&j->check->rows, *row))
		return error_set(j->error, "out of memory");
	j->check->broken += row->verdict == CHECK_BROKEN;
	j->check->unknown += row->verdict == CHECK_UNKNOWN;
	return 0;
}

/* The 95 % confidence interval: of the value, or if the limit comes from an estimate, of the difference. */
static void set_interval(struct check_row *row, const struct measured *m)
{
	double below = row->limit_error, error = hypot(m->error, below);
	double most = (m->factor > 0 ? m->factor : 1.96) * error;

	row->estimate = m->estimate || below > 0;
	row->error = m->error;
	row->low = saturating_i64((double)m->value - most - m->bias);
	row->high = saturating_i64((double)m->value + most + m->unrecorded);
	if (row->low < 0 && row->measure != CHECK_GROWTH)
		row->low = 0;
}

/* True if recorded and unrecorded memory together may exceed the limit. A comparison with a baseline is of recorded memory only. */
static bool unrecorded_may_exceed(const struct judge *j, const struct profile_process *p,
				  const struct check_row *row)
{
	uint64_t room_bytes = saturating_sub((uint64_t)row->limit, (uint64_t)row->value);

	if (row->has_baseline || (row->measure != CHECK_PEAK && row->measure != CHECK_LEAKED))
		return false;
	return coverage_missing_bytes(j->profile, p) > room_bytes;
}

/* old: the process of the baseline; NULL: none. */
static int judge_row(struct judge *j, const struct profile_process *p,
		     const struct profile_process *old, struct check_row *row)
{
	struct measured m = { 0 };

	if (measure(j, j->profile, p, row->measure, &m, &row->why) < 0)
		return -1;
	row->has_value = !m.is_unknown;
	row->value = m.value;
	set_interval(row, &m);
	if ((row->estimate ? row->low : row->value) > row->limit) {
		row->verdict = CHECK_BROKEN;
		row->why = NULL;
		if (blame(j, p, old, row) < 0)
			return -1;
	} else if (row->why) {
		row->verdict = CHECK_UNKNOWN;
	} else if (is_damaged(j->profile, p)) {
		row->verdict = CHECK_UNKNOWN;
		row->why = "the file is damaged or was cut off: heapgauge report says what is "
			   "missing";
	} else if (unrecorded_may_exceed(j, p, row)) {
		row->verdict = CHECK_UNKNOWN;
		row->why = "memory that was not recorded may exceed it: heapgauge report --view "
			   "memory";
	} else if (row->estimate && row->high > row->limit) {
		row->verdict = CHECK_UNKNOWN;
		row->why = "samples are too few to tell: record with a smaller --interval, or "
			   "exactly";
	} else if (lost_calls(p)) {
		row->verdict = CHECK_UNKNOWN;
		row->why = "some allocations were not recorded: heapgauge report --view health";
	}
	return push(j, row);
}

static bool is_same(const struct profile_process *a, const struct profile_process *b, bool command)
{
	return strcmp(program_of(a), program_of(b)) == 0 &&
	       (!command || strcmp(a->command, b->command) == 0);
}

/* The baseline's process at the same position among those of the same program and, if `command`, the same command line. */
static const struct profile_process *same_in_order(const struct judge *j, size_t index,
						   bool command)
{
	const struct profile *old = j->options->baseline;
	const struct profile_process *p = &j->profile->processes[index];
	size_t before = 0;

	for (size_t i = 0; i < index; i++)
		before += is_same(&j->profile->processes[i], p, command);
	for (size_t i = 0; i < old->process_count; i++)
		if (is_same(&old->processes[i], p, command) && before-- == 0)
			return &old->processes[i];
	return NULL;
}

static int judge_baseline(struct judge *j, const struct profile_process *p,
			  const struct profile_process *old, enum check_measure which)
{
	struct check_row row = { .program = program_of(p),
				 .pid = p->pid,
				 .has_measure = true,
				 .measure = which,
				 .has_limit = true,
				 .has_baseline = true };
	struct measured before = { 0 };

	if (measure(j, j->options->baseline, old, which, &before, &row.why) < 0)
		return -1;
	if (before.is_unknown) {
		const struct check_row unknown = {
			.program = row.program,
			.pid = row.pid,
			.has_measure = true,
			.measure = which,
			.verdict = CHECK_UNKNOWN,
			.why = arena_printf(&j->check->arena,
					    "the baseline does not have its %s: %s",
					    check_measures[which].words, row.why),
		};

		return unknown.why ? push(j, &unknown) : error_set(j->error, "out of memory");
	}
	row.baseline = before.value;
	row.limit_error = before.error * (1 + j->options->tolerance);
	row.limit = (int64_t)floor((double)row.baseline * (1 + j->options->tolerance));
	if (check_measures[which].unit == UNIT_BYTES)
		row.limit += j->options->tolerance_bytes;
	return judge_row(j, p, old, &row);
}

static int judge_process(struct judge *j, const struct profile_process *p,
			 const struct budget *budget)
{
	for (enum check_measure m = 0; m < CHECK_MEASURES; m++) {
		struct check_row row = { .program = program_of(p),
					 .pid = p->pid,
					 .has_measure = true,
					 .measure = m,
					 .has_limit = true,
					 .limit = budget->limit[m] };

		if (budget->has[m] && judge_row(j, p, NULL, &row) < 0)
			return -1;
	}
	return 0;
}

/* The programs that the budget is for and that were not recorded. Returns their number, or -1 with the error set. */
static ptrdiff_t judge_missed(struct judge *j, const struct budget *budget)
{
	struct missed_program missed;
	ptrdiff_t found = 0;

	if (j->options->query->filters.process)
		return 0;
	for (size_t i = 0; missed_program(j->profile, i, &missed); i++) {
		const char *name = missed.path[0] ? path_base(missed.path) : "?";
		const struct check_row row = {
			.program = name,
			.verdict = CHECK_UNKNOWN,
			.why = arena_printf(&j->check->arena, "it was not recorded: %s",
					    missed.why),
		};

		if (budget->pattern && fnmatch(budget->pattern, name, 0) != 0)
			continue;
		if (!row.why)
			return error_set(j->error, "out of memory");
		if (push(j, &row) < 0)
			return -1;
		found++;
	}
	return found;
}

static int judge_budget(struct judge *j, const struct budget *budget)
{
	size_t matched = 0;

	for (size_t i = 0; i < j->profile->process_count; i++) {
		const struct profile_process *p = &j->profile->processes[i];

		if (!j->chosen[i] ||
		    (budget->pattern && fnmatch(budget->pattern, program_of(p), 0) != 0))
			continue;
		/* A process that called exec is checked as the new program. */
		if (p->end == PROFILE_BECAME && !budget->pattern)
			continue;
		matched++;
		j->judged[i] = true;
		if (judge_process(j, p, budget) < 0)
			return -1;
	}
	ptrdiff_t missed = judge_missed(j, budget);

	if (missed != 0 || matched)
		return missed < 0 ? -1 : 0;
	const struct check_row row = { .program = budget->pattern ? budget->pattern : "?",
				       .verdict = CHECK_UNKNOWN,
				       .why = budget->pattern
						      ? "no process of that name was recorded"
						      : "no process was recorded" };

	return push(j, &row);
}

/* Skips processes without a counterpart, those whose allocator was recorded neither then nor now, and what is not freed of those that still
 * ran; but if none is left, nothing would have been checked. */
static int judge_all_baselines(struct judge *j)
{
	static const enum check_measure compared[] = { CHECK_PEAK, CHECK_LEAKED, CHECK_CALLS };
	struct check_row unmatched = {
		.verdict = CHECK_UNKNOWN,
		.why = "no process of that name is in the baseline: heapgauge diff compares "
		       "programs of different names",
	};
	size_t rows = j->check->rows.count;

	for (size_t i = 0; i < j->profile->process_count; i++) {
		const struct profile_process *p = &j->profile->processes[i];
		const struct profile_process *old = j->chosen[i] ? same_in_order(j, i, true) : NULL;

		if (!old && j->chosen[i])
			old = same_in_order(j, i, false);

		if (j->chosen[i] && !unmatched.program)
			unmatched.program = program_of(p);
		if (old && linked_in_is_malloc(p) && linked_in_is_malloc(old)) {
			unmatched.why = unrecorded_allocator;
			continue;
		}
		if (!old)
			continue;
		j->judged[i] = true;
		unmatched.why = "no measure of it could be compared with the baseline";
		for (size_t k = 0; k < ARRAY_SIZE(compared); k++)
			if (knows(j->profile, compared[k]) &&
			    knows(j->options->baseline, compared[k]) &&
			    !is_too_early(p, compared[k]) && !is_too_early(old, compared[k]) &&
			    judge_baseline(j, p, old, compared[k]) < 0)
				return -1;
	}
	if (j->check->rows.count > rows)
		return 0;
	if (!unmatched.program)
		unmatched = (struct check_row){ .program = "?",
						.verdict = CHECK_UNKNOWN,
						.why = "no process was recorded" };
	return push(j, &unmatched);
}

static void sum_mappings(const struct judge *j)
{
	struct check *check = j->check;

	check->mapped.known = !profile_is_imported(j->profile);
	for (size_t i = 0; i < j->profile->process_count; i++) {
		const struct profile_process *p = &j->profile->processes[i];

		if (!j->judged[i] || p->mmap_peak_bytes == 0)
			continue;
		check->mapped.processes++;
		if (p->mmap_peak_bytes <= check->mapped.most_bytes)
			continue;
		check->mapped.most_bytes = p->mmap_peak_bytes;
		check->mapped.program = program_of(p);
	}
}

/* A filter that matches no heap stack in any process would satisfy every budget. */
static int expect_sites(const struct judge *j)
{
	struct query q = question(j, CHECK_CALLS);
	struct selection s;

	if (q.filters.rules.count == 0)
		return 0;
	if (!knows(j->profile, CHECK_CALLS))
		q.cost = COST_LIVE;
	if (selection_make(&s, j->profile, j->locations, &q, (struct view_defaults){ 0 },
			   j->error) < 0)
		return -1;
	bool some = s.count > 0;

	selection_release(&s);
	return some ? 0
		    : error_set(j->error,
				"no heap stack matches --site: 'heapgauge report --view sites' "
				"lists all sites");
}

int check_run(struct check *check, const struct profile *profile, struct locations *locations,
	      const struct check_options *options, struct error *error)
{
	struct judge j = { .check = check,
			   .profile = profile,
			   .locations = locations,
			   .options = options,
			   .error = error };

	*check = (struct check){ 0 };
	j.chosen = choose_processes(profile, options->query->filters.process, &check->arena, error);
	if (!j.chosen || expect_sites(&j) < 0)
		goto fail;
	j.judged = ARENA_ARRAY(&check->arena, bool, profile->process_count + 1);
	if (!j.judged) {
		error_set(error, "out of memory");
		goto fail;
	}
	for (size_t i = 0; i < options->budget_count; i++)
		if (judge_budget(&j, &options->budgets[i]) < 0)
			goto fail;
	if (options->baseline && judge_all_baselines(&j) < 0)
		goto fail;
	sum_mappings(&j);
	return 0;
fail:
	check_release(check);
	return -1;
}

void check_release(struct check *check)
{
	arena_release(&check->arena);
	vector_release(&check->rows);
}

struct units check_text(enum check_measure measure, int64_t value)
{
	uint64_t size = value < 0 ? 0 : (uint64_t)value;
	struct units text;

	switch (check_measures[measure].unit) {
	case UNIT_BYTES:
		return units_bytes(size);
	case UNIT_COUNT:
		return units_count(size);
	default:
		snprintf(text.text, sizeof text.text, "%.30s/s", units_bytes(size).text);
		return text;
	}
}
