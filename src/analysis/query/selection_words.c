/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that views of a selection share: the fields of the head, the first line and the notes.
 * It is in one file so that all views say the same things in the same order.
 */
#include <string.h>

#include "analysis/query/comparison.h"
#include "analysis/result/build.h"
#include "analysis/result/imported.h"
#include "analysis/query/selection.h"
#include "util/files.h"
#include "util/text/units.h"

/* `whole` alone is not enough: it may be of another kind of memory, or a difference. */
static bool recorded_nothing(const struct selection *s)
{
	for (size_t i = 0; i < s->profile->process_count; i++)
		if (s->profile->processes[i].calls)
			return false;
	return s->whole.calls == 0 && s->whole.frees == 0;
}

/* NULL: the numbers need no explanation. */
static const char *note_of(const struct selection *s, struct arena *arena)
{
	const char *nothing = s->against	    ? comparison_nothing(s->against, arena)
			      : recorded_nothing(s) ? nothing_recorded(s->profile)
						    : NULL;

	if (nothing)
		return nothing;
	if (s->unmatched)
		return s->unmatched;
	if (s->window_note)
		return s->window_note;
	if (!cost_rows[s->cost].adds_up)
		return "each site had its maximum at its own time: sums of them are upper bounds";
	if (profile_is_imported(s->profile))
		return "a heap profile of another tool: the peak, lifetimes, sizes and threads are "
		       "not known (-)";
	if (s->end_for_peak)
		return "what these threads held at the peak is not known, because others freed some "
		       "of their blocks, or they freed blocks of others: this is the end";
	if (s->unknown_threads)
		return "this was not measured for threads whose blocks others freed, or who freed "
		       "blocks of others (-): the end (--cost leaked), calls and total were";
	return NULL;
}

/* Joins `first` and `then`. NULL if out of memory. */
static const char *preceded(struct arena *arena, const char *first, const char *then)
{
	return first && then ? arena_printf(arena, "%s; %s", first, then) : first;
}

/* The selected processes whose time in the allocator is not known. */
static size_t untimed_processes(const struct selection *s)
{
	size_t count = 0;

	if (s->cost != COST_TIME || s->against)
		return 0;
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];

		count += s->processes[i] && !p->timed_of && p->calls;
	}
	return count;
}

/* The caveats of the numbers in one sentence, starting with what the sum omits; NULL: none. In the arena; false if out of
 * memory. */
static bool selection_note(const struct selection *s, struct arena *arena, const char **ret)
{
	const char *note = note_of(s, arena);
	size_t untimed = untimed_processes(s);
	bool some = note || s->unknown_sites || s->shared_count || untimed ||
		    (s->cost == COST_TIME && s->untimed);

	if (note)
		note = arena_strdup(arena, note);
	if (s->unknown_sites)
		note = preceded(
			arena,
			arena_printf(
				arena,
				"of %zu sites it is not known what these threads hold, because "
				"others freed some of their blocks: counted as nothing",
				s->unknown_sites),
			note);
	if (s->cost == COST_TIME && s->untimed)
		note = preceded(arena,
				arena_printf(arena,
					     "%s calls and frees are of sites without a timed call "
					     "(-): counted as nothing",
					     units_count(s->untimed).text),
				note);
	if (untimed)
		note = preceded(
			arena,
			untimed == 1
				? "1 process was recorded without --time-calls: counted as nothing"
				: arena_printf(arena,
					       "%zu processes were recorded without --time-calls: "
					       "counted as nothing",
					       untimed),
			note);
	if (s->shared_count)
		note = preceded(
			arena,
			arena_printf(arena,
				     "%zu of the requested threads were counted together with "
				     "others, because there were very many: left out",
				     s->shared_count),
			note);
	*ret = note;
	return note || !some;
}

bool selection_fields(struct result *result, const struct selection *s)
{
	result->shows_peak |= s->asked.kind == MOMENT_PEAK || s->since.kind == MOMENT_PEAK;
	result_head_add(result, "cost", value_text(cost_rows[s->cost].name));
	result_head_add(result, "moment", value_text(arena_strdup(&result->arena, s->moment)));
	if (selection_live_bound(s))
		result_head_add(result, "live_bound_bytes", value_bytes(selection_live_bound(s)));
	result_head_add(result, "shown", selection_value(s, &s->sum));
	result_head_add(result, "total", selection_value(s, &s->whole));
	result_head_add(result, "suppressed", selection_value(s, &s->suppressed));
	result_head_add(result, "suppressed_sites", value_count(s->suppressed_count));
	const char *note;

	if (!selection_note(s, &result->arena, &note))
		return false;
	if (note)
		result_head_add(result, "note", value_text(note));
	if (s->unmatched)
		result_head_add(result, "unmatched", value_flag(true));
	if (s->end_for_peak)
		result_head_add(result, "end_for_peak", value_flag(true));
	return true;
}

const char *title_of(struct result *result, const char *title)
{
	const char *kept = arena_strdup(&result->arena, title);

	return kept ? kept : "?";
}

/* A hundredth of the number is. */
static bool is_bound_worth_telling(int64_t number, uint64_t bound)
{
	return bound > magnitude(number) / 100;
}

static void describe_sum(struct words *w, const struct selection *s, const struct measures *sum)
{
	int64_t blocks = cost_of(COST_BLOCKS, sum, s->duration_ns) / s->divisor;

	words_add(w, selection_value(s, sum));
	if (is_bound_worth_telling(sum->live_bytes, selection_live_bound(s)))
		text_format(w, " within {}", value_bytes(selection_live_bound(s)));
	if (s->cost == COST_LIVE)
		text_format(w, blocks == 1 ? " in {} block" : " in {} blocks",
			    selection_value_of(s, COST_BLOCKS, sum));
}

/* The mode of the selected processes. */
static const char *mode_of(const struct selection *s)
{
	const struct profile *profile = s->profile;
	const char *mode = NULL;

	for (size_t i = 0; i < profile->process_count; i++) {
		if (!s->processes[i])
			continue;
		if (mode && strcmp(mode, profile->processes[i].mode) != 0)
			return "mixed";
		mode = profile->processes[i].mode;
	}
	return mode ? mode : "empty";
}

/* "run.hg  ./server  exact  peak 214.0 MiB at the peak, 9.1 s" */
static void describe_what(struct words *w, struct result *result, const struct profile *profile,
			  const struct query *query, const struct selection *s)
{
	const char *mode = s->against ? "compared" : mode_of(s);
	const struct measures *mapped = &s->sum_of[PROFILE_MMAP];
	const struct measures *heap = &s->sum_of[selection_kind(s)];

	words_text(w, arena_printf(&result->arena, "%s  %.60s  %s  %s ",
				   s->against ? query->file : path_base(query->file),
				   profile->command, mode, s->cost_word));
	describe_sum(w, s, heap);
	words_text(w, s->at_exit ? " at exit" : arena_printf(&result->arena, " %s", s->moment));
	if (heap != mapped &&
	    (selection_cost(s, mapped) || (s->cost == COST_LIVE && mapped->live_blocks))) {
		words_text(w, "; mappings ");
		describe_sum(w, s, mapped);
	}
}

static void describe_hidden(struct words *w, struct result *result, const struct query *query,
			    const struct selection *s)
{
	text_format(w, "{} of {}: ", selection_value(s, &s->sum), selection_value(s, &s->whole));
	words_text(w, filters_text(&query->filters, &result->arena));
	if (s->suppressed_count) {
		text_format(w, "; suppressed {} in ", selection_value(s, &s->suppressed));
		words_count(w, s->suppressed_count, " site", " sites");
	}
}

void selection_describe(struct sentences *sentences, const struct query *query,
			const struct selection *s)
{
	struct words what = { 0 }, hidden = { 0 };

	describe_what(&what, sentences->result, s->profile, query, s);
	sentences_add(sentences, NULL, &what, NULL);
	if (!s->filtered)
		return;
	describe_hidden(&hidden, sentences->result, query, s);
	sentences_add(sentences, "shown", &hidden, NULL);
}

bool selection_headline(struct result *result, const struct profile *profile,
			const struct query *query, const struct selection *s)
{
	struct sentences sentences = { .result = result };

	(void)profile;
	selection_describe(&sentences, query, s);
	return sentences_end(&sentences);
}

bool selection_notes(struct result *result, const struct profile *profile,
		     struct locations *locations, const struct selection *s)
{
	const char *first = NULL;

	return selection_note(s, &result->arena, &first) &&
	       result_notes(result, profile, locations, first);
}
