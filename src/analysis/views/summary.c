/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `summary`: an overview in a few lines, and for machine formats the totals of every
 * process.
 *
 * The sentences describe the launched process (after exec, its last program); with several
 * processes, a table lists them. The last lines suggest next steps. Only the stacks of the heaviest
 * sites are symbolized.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/query/process_choice.h"
#include "analysis/query/comparison.h"
#include "analysis/advice/coverage.h"
#include "analysis/advice/next_steps.h"
#include "analysis/advice/verdict.h"
#include "analysis/result/process_rows.h"
#include "base/compiler.h"
#include "model/extremes.h"
#include "model/estimates.h"
#include "model/missed.h"
#include "model/tags.h"
#include "model/unrecorded.h"

struct writer_state {
	struct sentences sentences;
	struct result *result;
	struct locations *locations;
	const struct profile_process *process;
	struct findings findings;
};

/* "61.2 % of it from Cache::insert (cache.cc:88)" */
static void words_top_site(struct words *w, struct writer_state *s, const struct profile_site *site,
			   uint64_t part, uint64_t whole)
{
	text_format(w, "{} of it from ", value_percent(part, whole));
	words_text(w, stack_label(s->result, s->locations, s->process, site->node));
}

static void describe_headline(struct writer_state *s, const struct profile *profile)
{
	const struct profile_process *p = s->process;
	bool whole = profile->warnings.count == 0, supported = true;
	struct words w = { 0 };

	for (size_t i = 0; i < profile->process_count; i++) {
		whole = whole && profile->processes[i].health.count == 0;
		supported = supported && coverage_supports(profile, &profile->processes[i]);
	}
	words_text(&w,
		   arena_printf(&s->result->arena, "%s (%spid %u) %s after ",
				command_short(&s->result->arena, p->command),
				p->rank ? arena_printf(&s->result->arena, "rank %u, ", p->rank - 1)
					: "",
				p->pid, process_end_text(&s->result->arena, p)));
	/* Since the run's start, like all other times. */
	words_add(&w, value_ns(saturating_add(p->started_offset_ns, p->duration_ns)));
	words_text(&w, arena_printf(&s->result->arena, ", %s, ", p->mode));
	if (p->interval)
		text_format(&w, "one of {} on average, ", value_bytes(p->interval));
	words_text(&w, !whole	   ? "but see ! below"
		       : supported ? "nothing lost"
		       : profile->process_count == 1
			       ? "no call lost, coverage unknown"
			       : "no call lost, coverage of some processes unknown");
	sentences_add(&s->sentences, NULL, &w, NULL);
}

/* "server: heap profile of jemalloc heap_v2, sampled, one of 512.0 KiB on average" */
static void describe_imported(struct writer_state *s, const struct profile *profile)
{
	const struct profile_process *p = s->process;
	const char *command = command_short(&s->result->arena, p->command);
	struct words w = { 0 };

	const char *mode = strcmp(p->mode, "unknown") == 0 ? "maybe sampled" : p->mode;

	words_text(&w, arena_printf(&s->result->arena, "%s%s%s heap profile, %s", command,
				    command[0] ? ": " : "", profile->version, mode));
	if (p->interval)
		text_format(&w, ", one of {} on average", value_bytes(p->interval));
	words_text(&w, p->has_totals ? "; it has live memory and totals, nothing of the run"
				     : "; it has live memory, no totals and nothing of the run");
	sentences_add(&s->sentences, NULL, &w, NULL);
}

static void describe_together(struct writer_state *s, const struct profile *profile,
			      const struct profile_process *largest)
{
	struct words w = { 0 };

	words_add(&w,
		  value_estimate(value_bytes(profile->peak_bytes), profile_peak_variance(profile)));
	if (profile->peak_bound_bytes)
		text_format(&w, " or up to {} more", value_bytes(profile->peak_bound_bytes));
	text_format(&w, " at one moment in {} processes; the lines below are of pid {}",
		    value_count(profile->process_count), value_id(s->process->pid));
	if (largest != s->process)
		text_format(&w, ", the largest heap was that of pid {}", value_id(largest->pid));
	sentences_add(&s->sentences, "together", &w, NULL);
}

static void describe_peak(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	struct words w = { 0 };

	words_add(&w, value_part(UNIT_BYTES, p->peak_bytes, VARIANCE_PEAK_BYTES, &p->sums));
	if (p->peak_bound_bytes)
		text_format(&w, " within {}", value_bytes(p->peak_bound_bytes));
	text_format(&w, p->peak_blocks == 1 ? " in {} block" : " in {} blocks",
		    value_part(UNIT_COUNT, p->peak_blocks, VARIANCE_PEAK_BLOCKS, &p->sums));
	words_time(&w, p, p->peak_at_ns);
	sentences_add(&s->sentences, "peak", &w, NULL);
}

static void describe_left(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	struct words w = { 0 };

	words_add(&w, value_part(UNIT_BYTES, p->live_bytes, VARIANCE_LIVE_BYTES, &p->sums));
	if (p->live_bound.bytes > p->live_bytes / 100)
		text_format(&w, " within {}", value_bytes(p->live_bound.bytes));
	text_format(&w, p->live_blocks == 1 ? " in {} block" : " in {} blocks",
		    value_part(UNIT_COUNT, p->live_blocks, VARIANCE_LIVE_BLOCKS, &p->sums));
	bool alive = p->end == PROFILE_RUNNING || p->end == PROFILE_BECAME;

	if (!alive)
		words_text(&w, when_it_ended(p));
	sentences_add(&s->sentences, alive ? "live" : "not freed", &w, NULL);
}

static void describe_growth(struct writer_state *s)
{
	struct growth growth = findings_growth(&s->findings, s->process);
	struct words w = { 0 }, more = { 0 };

	if (growth.per_second <= 0)
		return;
	words_growth(&w, &growth);
	if (growth.most)
		words_top_site(&more, s, growth.most, (uint64_t)growth.most_per_second,
			       (uint64_t)growth.per_second);
	sentences_add(&s->sentences, "growth", &w, growth.most ? &more : NULL);
}

static void describe_allocations(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	struct words w = { 0 };

	struct result_value calls = value_all_calls(p);

	text_format(&w, calls.number == 1 ? "{} allocation of {}" : "{} allocations of {}", calls,
		    value_all_bytes(p));
	if (p->calls && !p->imported)
		text_format(&w, ", {} of them freed before the next one",
			    value_percent(p->temporary_calls, p->calls));
	sentences_add(&s->sentences, "allocated", &w, NULL);
}

/* "8 B to 1.0 MiB, 96 B on average; at most 1,204 blocks live and 31,000 allocations/s". The bounds of size classes are marked, and those
 * of samples, which may lack the sizes of most blocks. */
static void describe_extremes(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	struct process_extremes e = process_extremes(p);
	struct words w = { 0 };

	if (!e.has_sizes)
		return;
	text_format(&w, e.smallest_is_bound ? "at least {}" : "{}", value_bytes(e.smallest_bytes));
	if (e.largest_bytes != UINT64_MAX)
		text_format(&w, e.largest_is_bound ? " to at most {}" : " to {}",
			    value_bytes(e.largest_bytes));
	text_format(&w,
		    p->interval ? " in the samples, {} on average in all; at most "
				: ", {} on average; at most ",
		    value_mean_bytes(p));
	words_count(&w, e.live_blocks, " block live", " blocks live");
	if (e.has_rate && e.calls_per_second > 0)
		text_format(&w, " and {} allocations/s", value_count(e.calls_per_second));
	sentences_add(&s->sentences, "sizes", &w, NULL);
}

static void describe_mapped(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	uint64_t arenas = unrecorded_python_arenas(p);
	struct words w = { 0 };

	if (!p->mmap_calls)
		return;
	text_format(&w, "{} at most, {} at the end, in ", value_bytes(p->mmap_peak_bytes),
		    value_bytes(p->mmap_live_bytes));
	words_count(&w, p->mmap_calls, " call of mmap", " calls of mmap");
	if (arenas)
		text_format(&w,
			    "; up to {} for Python's objects: record --python domains shows them",
			    value_bytes(arenas));
	sentences_add(&s->sentences, "mapped", &w, NULL);
}

/* Sums a pool, for the standard error of its numbers: they are estimates if sampled. */
static struct site_numbers sum_pool(const struct profile_process *p, const char *name)
{
	struct site_numbers sum = { 0 };

	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].kind == PROFILE_POOL &&
		    strcmp(profile_tag_pool(p, p->sites[i].tag), name) == 0)
			estimates_add(&sum, &p->sites[i].numbers);
	return sum;
}

static void describe_pools(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	struct profile_tag most = { 0 };
	uint64_t count = 0;
	struct words w = { 0 };

	for (uint32_t i = 1; i < profile_tag_count(p); i++) {
		struct profile_tag tag = profile_tag(p, (tag_id){ i });

		if (tag.pools == 0)
			continue;
		if (count++ == 0 || tag.most_bytes > most.most_bytes)
			most = tag;
	}
	if (count == 0)
		return;
	struct site_numbers sum = sum_pool(p, most.name);

	text_format(&w, "{} at most in {}",
		    value_part(UNIT_BYTES, most.most_bytes, VARIANCE_BYTES, &sum),
		    value_text(most.name));
	if (count > 1) {
		words_text(&w, ", the largest of ");
		words_count(&w, count, " pool", " pools");
	}
	sentences_add(&s->sentences, "pools", &w, NULL);
}

/* "32.5 MiB at 1.95 s, 50.0 ms before the end": from the same memory sheet as the parts that follow. */
static void words_sheet(struct words *w, const struct profile_process *p)
{
	const struct profile_memory *m = &p->memory;

	words_add(w, value_bytes(m->rss_bytes));
	words_time(w, p, m->at_ns);
	if (m->at_ns < p->duration_ns)
		text_format(w, ", {} before the end", value_ns(p->duration_ns - m->at_ns));
	text_format(w, ": live heap {}",
		    value_part(UNIT_BYTES, m->live_bytes, VARIANCE_BYTES, &p->sums));
	/* Otherwise a part would exceed the whole. In a sampled process it may be an error of the estimate. */
	if (m->has_parts && !p->interval && m->untouched_bytes > m->live_bytes / 10)
		text_format(w, ", of which {} is not resident", value_bytes(m->untouched_bytes));
	text_format(w, ", held by the allocator {}, recorder {}",
		    m->has_parts ? value_part(UNIT_BYTES, m->beyond_bytes, VARIANCE_BYTES, &p->sums)
				 : value_text("unknown"),
		    value_bytes(m->own_bytes));
	if (m->cgroup_limit_bytes)
		text_format(w, "; control group {} of {}", value_bytes(m->cgroup_usage_bytes),
			    value_bytes(m->cgroup_limit_bytes));
}

static void describe_rss(struct writer_state *s)
{
	const struct profile_process *p = s->process;
	struct words w = { 0 };

	if (!p->peak_rss_bytes && !p->memory.known)
		return;
	if (p->peak_rss_bytes)
		text_format(&w, p->memory.known || p->rss_bytes ? "{} at most; " : "{} at most",
			    value_bytes(p->peak_rss_bytes));
	if (p->memory.known) {
		words_sheet(&w, p);
	} else if (p->rss_bytes) {
		words_add(&w, value_bytes(p->rss_bytes));
		words_time(&w, p, p->duration_ns);
	}
	sentences_add(&s->sentences, "RSS", &w, NULL);
}

/* glibc is the default and not mentioned. */
static void describe_allocator(struct writer_state *s)
{
	const char *name = s->process->allocator;
	struct words w = { 0 };

	if (!name[0] || strcmp(name, "glibc") == 0)
		return;
	words_text(&w, name);
	if (linked_in_has_hooks(s->process))
		words_text(&w,
			   ": linked into the program, and slower while it is recorded, because "
			   "it calls hooks instead of taking its fast path");
	sentences_add(&s->sentences, "allocator", &w, NULL);
}

static void describe_options(struct writer_state *s, const struct profile *profile)
{
	struct words w = { 0 };

	if (!profile->options[0])
		return;
	words_text(&w, profile->options);
	sentences_add(&s->sentences, "options", &w, NULL);
}

static bool describe_all(struct result *result, struct locations *locations,
			 const struct profile *profile, const struct profile_process *first,
			 const struct query *query)
{
	struct writer_state s = { .sentences = { .result = result },
				  .result = result,
				  .locations = locations,
				  .process = first };

	if (first->imported) {
		describe_imported(&s, profile);
		describe_left(&s);
		if (first->has_totals)
			describe_allocations(&s);
		return sentences_end(&s.sentences);
	}
	if (findings_make_all(&s.findings, profile, locations) < 0)
		return false;
	describe_headline(&s, profile);
	if (profile->process_count > 1 && !query->filters.process)
		describe_together(&s, profile, process_largest(profile));
	if (!verdict_describe(&s.sentences, locations, profile, first, &s.findings)) {
		findings_release(&s.findings);
		return false;
	}
	describe_peak(&s);
	describe_left(&s);
	describe_growth(&s);
	describe_allocations(&s);
	describe_extremes(&s);
	describe_mapped(&s);
	describe_pools(&s);
	describe_rss(&s);
	struct coverage coverage = coverage_of_process(profile, first);

	coverage_describe(&s.sentences, profile, first, &coverage);
	describe_allocator(&s);
	describe_options(&s, profile);
	next_steps_describe(&s.sentences, profile, first, &s.findings, query);
	findings_release(&s.findings);
	return sentences_end(&s.sentences);
}

static int compare_peaks(const void *left, const void *right)
{
	const struct profile_process *a = *(const struct profile_process *const *)left;
	const struct profile_process *b = *(const struct profile_process *const *)right;

	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes < b->peak_bytes ? 1 : -1;
	return a < b ? -1 : a > b; /* earlier ones first */
}

/* The selected processes. */
struct picked {
	const struct profile_process **at; /* in the arena */
	size_t count;
};

static int pick_processes(struct result *result, const struct profile *profile,
			  const struct query *query, struct picked *ret, struct error *error)
{
	const bool *wanted = processes_choose(profile, query, &result->arena, error);

	if (!wanted)
		return -1;
	ret->at =
		ARENA_ARRAY(&result->arena, const struct profile_process *, profile->process_count);
	if (!ret->at)
		return error_set(error, "out of memory");
	for (size_t i = 0; i < profile->process_count; i++)
		if (wanted[i])
			ret->at[ret->count++] = &profile->processes[i];
	return 0;
}

/* The process that was launched; if it called exec, the last program it became. */
static const struct profile_process *first_of(const struct picked *picked)
{
	const struct profile_process *first = picked->count ? picked->at[0] : NULL;

	for (size_t i = 1; i < picked->count && first->end == PROFILE_BECAME; i++)
		if (picked->at[i]->pid == first->pid)
			first = picked->at[i];
	return first;
}

/* Ordered by start; or the heaviest, if there are more than the limit. */
static bool fill_table(struct result *result, struct picked *picked, size_t limit)
{
	size_t rows = MIN(picked->count, limit);
	struct result_column *shown = result_columns(result, process_columns, PROCESS_COLUMNS);
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, rows * PROCESS_COLUMNS);

	if (!shown || !values)
		return false;
	if (limit < picked->count)
		qsort(picked->at, picked->count, sizeof *picked->at, compare_peaks);
	for (size_t i = 0; i < rows; i++)
		if (!process_row(result, picked->at[i], &values[i * PROCESS_COLUMNS]))
			return false;
	result->table = (struct result_table){ .name = "processes",
					       .shape = RESULT_TABLE,
					       .columns = shown,
					       .column_count = PROCESS_COLUMNS,
					       .values = values,
					       .row_count = rows,
					       .machines_only = picked->count < 2 };
	return result_left_out(result, picked->count - rows, " more process", " more processes");
}

static bool is_anything_recorded(const struct picked *picked)
{
	for (size_t i = 0; i < picked->count; i++)
		if (picked->at[i]->calls || picked->at[i]->mmap_calls)
			return true;
	return false;
}

struct result *analyse_summary(const struct profile *profile, struct locations *locations,
			       const struct query *query, struct error *error)
{
	if (query->against)
		return comparison_summary(locations, query, error);
	struct result *result = result_begin("summary", profile, query, 1);
	struct picked picked = { 0 };

	if (result && pick_processes(result, profile, query, &picked, error) < 0) {
		result_free(result);
		return NULL;
	}
	if (result)
		result->shows_peak = true;
	const struct profile_process *first = first_of(&picked);
	const char *why = is_anything_recorded(&picked) ? NULL : nothing_recorded(profile);

	return result_end(
		result,
		result && fill_table(result, &picked, query->limit) &&
			(!first || describe_all(result, locations, profile, first, query)) &&
			result_notes(result, profile, NULL, why),
		error);
}
