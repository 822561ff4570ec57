/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `memory`: the balance sheet. Where a process' memory was, from what the program asked for
 * to what the kernel counts. Its lines add up; what does not is a line of its own.
 *
 * For people it is one moment of the largest process: the last that was looked at, or the nearest to
 * --at. For machines every moment that was kept, one row each.
 *
 * Resident and requested are different things: a program may ask for pages that it never touches.
 * Where the parts of the heap are more than its resident pages, the difference is shown as such.
 */
#include <math.h>

#include "analysis/build.h"
#include "analysis/moments.h"
#include "analysis/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "util/cleanup.h"

/* A kept row with what is derived from it. */
struct sheet {
	uint32_t pid;
	uint64_t at_ns; /* since the start of the recording */
	struct profile_memory m;
	uint64_t private_bytes;	  /* heap and anonymous, resident */
	uint64_t mapped_bytes;	  /* of them the program's own mappings, at most what is resident */
	uint64_t untouched_bytes; /* asked for and not resident */
	uint64_t rest_bytes;	  /* of the RSS, in no class */
	/* Of estimates: of what is live, its rounding, and what is the RSS less both. */
	float live_error, slack_error, rest_error;
};

/* Numbers that are made of what the kernel counts and what is live. */
static float error_of(const struct sheet *s, size_t offset)
{
	if (offset == offsetof(struct sheet, m.live_bytes))
		return s->live_error;
	if (offset == offsetof(struct sheet, m.slack_bytes))
		return s->slack_error;
	if (offset == offsetof(struct sheet, m.beyond_bytes) ||
	    offset == offsetof(struct sheet, untouched_bytes))
		return s->rest_error;
	return 0;
}

#define KEPT(name)                                                                                 \
	{                                                                                          \
		{ #name, NULL, UNIT_BYTES }, FROM_U64, offsetof(struct sheet, m.name),             \
			VARIANCE_NONE                                                              \
	}
#define DERIVED(name)                                                                              \
	{                                                                                          \
		{ #name, NULL, UNIT_BYTES }, FROM_U64, offsetof(struct sheet, name), VARIANCE_NONE \
	}

/* The words are the same as in the summary. */
static const struct source_column columns[] = {
	{ { "at_ns", NULL, UNIT_NS }, FROM_U64, offsetof(struct sheet, at_ns), VARIANCE_NONE },
	{ { "process", NULL, UNIT_ID }, FROM_U32, offsetof(struct sheet, pid), VARIANCE_NONE },
	KEPT(live_bytes),
	KEPT(slack_bytes),
	KEPT(map_live_bytes),
	DERIVED(mapped_bytes),
	KEPT(beyond_bytes),
	DERIVED(untouched_bytes),
	DERIVED(private_bytes),
	KEPT(heap_bytes),
	KEPT(anonymous_bytes),
	KEPT(stack_bytes),
	KEPT(file_bytes),
	KEPT(shared_bytes),
	KEPT(own_bytes),
	DERIVED(rest_bytes),
	KEPT(rss_bytes),
	KEPT(swap_bytes),
	KEPT(cgroup_usage_bytes),
	KEPT(cgroup_limit_bytes),
};

static struct sheet make_sheet(const struct profile_process *p, struct profile_memory m)
{
	struct sheet s = { .pid = p->pid, .m = m };
	const uint64_t classes[] = { m.heap_bytes, m.anonymous_bytes, m.stack_bytes,
				     m.file_bytes, m.shared_bytes,    m.own_bytes };
	uint64_t sum = 0;

	s.at_ns = saturating_add(p->started_offset_ns, m.at_ns);
	s.private_bytes = saturating_add(m.heap_bytes, m.anonymous_bytes);
	s.mapped_bytes = MIN(m.map_live_bytes, m.anonymous_bytes);
	s.untouched_bytes = saturating_sub(
		saturating_add(saturating_add(m.live_bytes, m.slack_bytes), s.mapped_bytes),
		s.private_bytes);
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		sum = saturating_add(sum, classes[i]);
	s.rest_bytes = saturating_sub(m.rss_bytes, sum);
	s.live_error = value_part(UNIT_BYTES, m.live_bytes, VARIANCE_BYTES, &p->sums).error;
	s.slack_error = value_part(UNIT_BYTES, m.slack_bytes, VARIANCE_LIVE_WASTE, &p->sums).error;
	s.rest_error = hypotf(s.live_error, s.slack_error);
	return s;
}

/* The moment that people see: nearest to the one asked for. */
static uint64_t wanted_ns(const struct profile_process *p, struct moment at)
{
	switch (at.kind) {
	case MOMENT_PEAK:
		return saturating_add(p->started_offset_ns, p->peak_at_ns);
	case MOMENT_TIME:
		return at.at_ns;
	default:
		return UINT64_MAX;
	}
}

static bool nearest_sheet(const struct profile_process *p, uint64_t at_ns, struct sheet *ret)
{
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < profile_memory_count(p); i++) {
		struct sheet s = make_sheet(p, profile_memory_at(p, i));
		uint64_t away = s.at_ns > at_ns ? s.at_ns - at_ns : at_ns - s.at_ns;

		if (away <= best) {
			best = away;
			*ret = s;
		}
	}
	return profile_memory_count(p) > 0;
}

static void add_line(struct sentences *s, const char *label, uint64_t bytes, float error,
		     const char *meaning)
{
	struct result_value value = { .unit = UNIT_BYTES, .number = bytes, .error = error };
	struct words w = { 0 }, more = { 0 };

	words_add(&w, value);
	words_text(&more, meaning);
	sentences_add(s, label, &w, &more);
	if (s->list.count)
		s->list.at[s->list.count - 1].aligned = true;
}

static void say_sheet(struct sentences *s, const struct sheet *t)
{
	const struct profile_memory *m = &t->m;
	const struct {
		const char *label;
		uint64_t bytes;
		bool always; /* also if it is 0 */
		const char *meaning;
		float error;
	} lines[] = {
		{ "requested", m->live_bytes, true, "allocated and not freed", t->live_error },
		{ "+ rounding", m->slack_bytes, true, "usable beyond what was asked for",
		  t->slack_error },
		{ "+ mapped", t->mapped_bytes, false, "the program's own mmap", 0 },
		{ "+ held", m->beyond_bytes, true,
		  "by the allocator: freed and not given back, headers, never handed out",
		  t->rest_error },
		{ "- untouched", t->untouched_bytes, false,
		  "asked for, but its pages were never written", t->rest_error },
		{ "= private", t->private_bytes, true, "heap and other anonymous memory", 0 },
		{ "+ stacks", m->stack_bytes, true, "of all threads", 0 },
		{ "+ files", m->file_bytes, true, "programs, libraries, mapped files", 0 },
		{ "+ shared", m->shared_bytes, false, "with other processes", 0 },
		{ "+ recorder", m->own_bytes, true, "what recording costs", 0 },
		{ "+ rest", t->rest_bytes, false, "in no class", 0 },
		{ "= RSS", m->rss_bytes, true, "resident, as the kernel counts it", 0 },
		{ "swap", m->swap_bytes, false, "not resident any more", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (lines[i].bytes || lines[i].always)
			add_line(s, lines[i].label, lines[i].bytes,
				 lines[i].bytes ? lines[i].error : 0, lines[i].meaning);
}

static void say_group(struct sentences *s, const struct profile_memory *m)
{
	struct words w = { 0 }, more = { 0 };

	if (!m->cgroup_limit_bytes)
		return;
	words_add(&w, value_number(UNIT_BYTES, m->cgroup_usage_bytes));
	words_text(&more, "in use of the limit of ");
	words_add(&more, value_number(UNIT_BYTES, m->cgroup_limit_bytes));
	words_text(&more, ", ");
	words_add(&more, value_percent(m->cgroup_usage_bytes, m->cgroup_limit_bytes));
	sentences_add(s, "control group", &w, &more);
	if (s->list.count)
		s->list.at[s->list.count - 1].aligned = true;
}

static bool say_all(struct result *result, const struct profile *profile,
		    const struct profile_process *p, struct moment at)
{
	struct sentences s = { .result = result };
	struct words w = { 0 };
	struct sheet sheet = { 0 };

	words_headline(&w, result, profile);
	if (!p || !nearest_sheet(p, wanted_ns(p, at), &sheet)) {
		words_text(&w, "not known where the memory was: it ended before it was looked at");
		sentences_add(&s, NULL, &w, NULL);
		return sentences_end(&s);
	}
	if (profile->process_count > 1)
		words_text(&w, arena_printf(&result->arena, "pid %u: %s  ", p->pid,
					    command_short(&result->arena, p->command)));
	words_text(&w, "where the memory was at ");
	words_add(&w, value_number(UNIT_NS, sheet.at_ns));
	sentences_add(&s, NULL, &w, NULL);
	say_sheet(&s, &sheet);
	say_group(&s, &sheet.m);
	return sentences_end(&s);
}

static bool fill_table(struct result *result, const struct profile *profile, const bool *wanted)
{
	struct result_column *shown = result_columns(result, columns, ARRAY_SIZE(columns));
	size_t rows = 0, at = 0;

	for (size_t i = 0; i < profile->process_count; i++)
		rows += wanted[i] ? profile_memory_count(&profile->processes[i]) : 0;
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, rows * ARRAY_SIZE(columns));

	if (!shown || !values)
		return false;
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; wanted[i] && j < profile_memory_count(p); j++) {
			struct sheet sheet = make_sheet(p, profile_memory_at(p, j));

			for (size_t k = 0; k < ARRAY_SIZE(columns); k++) {
				values[at] = source_value(&columns[k], &sheet);
				values[at++].error = error_of(&sheet, columns[k].offset);
			}
		}
	}
	result->table = (struct result_table){ .name = "memory",
					       .shape = RESULT_SERIES,
					       .columns = shown,
					       .column_count = ARRAY_SIZE(columns),
					       .values = values,
					       .row_count = rows,
					       .machines_only = true };
	return true;
}

/* snap:N is a time, once the recording says which. */
static int settle_moment(const struct profile *profile, struct moment *at, struct arena *scratch,
			 struct error *error)
{
	if (at->kind != MOMENT_SNAP)
		return 0;
	const struct kept_moment *moments = moments_resolve(profile, *at, scratch, error);

	if (!moments)
		return -1;
	for (size_t i = 0; i < profile->process_count; i++)
		if (moments[i].kind == KEPT_SNAPSHOT)
			*at = (struct moment){ .kind = MOMENT_TIME, .at_ns = moments[i].at_ns };
	return 0;
}

static const struct profile_process *largest_wanted(const struct profile *profile,
						    const bool *wanted)
{
	const struct profile_process *best = NULL;

	for (size_t i = 0; i < profile->process_count; i++)
		if (wanted[i] && profile->processes[i].memory.known &&
		    (!best || profile->processes[i].memory.rss_bytes > best->memory.rss_bytes))
			best = &profile->processes[i];
	return best;
}

struct result *analyse_memory(const struct profile *profile, struct places *places,
			      const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const bool *wanted = processes_choose(profile, query, &scratch, error);
	struct moment at = query->at;

	(void)places;
	if (!wanted || settle_moment(profile, &at, &scratch, error) < 0)
		return NULL;
	struct result *result = result_begin("memory", profile, query, 0);

	if (!result || !fill_table(result, profile, wanted) ||
	    !say_all(result, profile, largest_wanted(profile, wanted), at) ||
	    !result_notes(result, profile, NULL, (struct profile_notes){ 0 })) {
		result_free(result);
		error_set(error, "out of memory");
		return NULL;
	}
	return result;
}
