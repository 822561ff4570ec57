/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `memory`: the balance sheet of a process, from the bytes that the program requested to those that the kernel counts.
 * Its lines add up; any difference is a line of its own.
 *
 * Text output shows one moment of the largest process: the last memory sheet, or the nearest to --at, with its distance. Machine
 * formats have one row per sheet.
 *
 * Resident and requested memory differ: a program may request pages that it never touches. collect/process/sheet.c attributed the
 * resident memory when it read it; the unattributed part is "unknown".
 */
#include <math.h>
#include <string.h>

#include "analysis/advice/coverage.h"
#include "analysis/query/moments.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "model/memory/pages.h"
#include "util/cleanup.h"
#include "util/text/units.h"

enum { LEAST_HELD = 8 << 20 };

/* A memory sheet with derived values. */
struct sheet {
	uint32_t pid;
	uint64_t at_ns; /* since the start of the recording */
	struct profile_memory m;
	uint64_t rest_bytes; /* part of the RSS in no class */
	/* Standard errors of estimates: of live bytes, of rounding, and of the RSS minus both. */
	float live_error, fragmentation_error, rest_error;
};

/* The standard error of numbers derived from live bytes. */
static float error_of(const struct sheet *s, size_t offset)
{
	if (offset == offsetof(struct sheet, m.live_bytes))
		return s->live_error;
	if (offset == offsetof(struct sheet, m.fragmentation_bytes))
		return s->fragmentation_error;
	if (offset == offsetof(struct sheet, m.beyond_bytes) ||
	    offset == offsetof(struct sheet, m.untouched_bytes))
		return s->rest_error;
	return 0;
}

#define NUMBER(name, member)                                                                       \
	{                                                                                          \
		{ name, NULL, UNIT_BYTES }, FROM_U64, offsetof(struct sheet, member),              \
			VARIANCE_NONE                                                              \
	}
#define KEPT(name) NUMBER(#name, m.name)

/* The names match those in the summary. */
static const struct source_column columns[] = {
	{ { "at_ns", NULL, UNIT_NS }, FROM_U64, offsetof(struct sheet, at_ns), VARIANCE_NONE },
	{ { "pid", NULL, UNIT_ID }, FROM_U32, offsetof(struct sheet, pid), VARIANCE_NONE },
	KEPT(live_bytes),
	NUMBER("internal_fragmentation_bytes", m.fragmentation_bytes),
	NUMBER("mmap_live_bytes", m.map_live_bytes),
	NUMBER("mmap_resident_bytes", m.mapped_bytes),
	NUMBER("mmap_untouched_bytes", m.mapped_untouched_bytes),
	NUMBER("allocator_overhead_bytes", m.beyond_bytes),
	KEPT(inherited_bytes),
	KEPT(static_bytes),
	KEPT(unrecorded_bytes),
	KEPT(untouched_bytes),
	KEPT(private_bytes),
	KEPT(heap_bytes),
	KEPT(anonymous_bytes),
	KEPT(stack_bytes),
	KEPT(file_bytes),
	KEPT(shared_bytes),
	NUMBER("recorder_bytes", m.own_bytes),
	NUMBER("rest_bytes", rest_bytes),
	KEPT(rss_bytes),
	KEPT(swap_bytes),
	KEPT(cgroup_usage_bytes),
	KEPT(cgroup_limit_bytes),
	KEPT(vm_bytes),
	KEPT(stack_reserved_bytes),
	KEPT(stack_largest_bytes),
	KEPT(system_bytes),
	KEPT(system_available_bytes),
	KEPT(system_cached_bytes),
	KEPT(system_swap_bytes),
};

/* Null if an older recording does not have them. */
static bool is_newer(size_t offset)
{
	return offset >= offsetof(struct sheet, m.vm_bytes) &&
	       offset <= offsetof(struct sheet, m.system_swap_bytes);
}

/* Parts are null if the sheet has none. */
static bool is_part(size_t offset)
{
	return offset >= offsetof(struct sheet, m.mapped_bytes) &&
	       offset <= offsetof(struct sheet, m.mapped_untouched_bytes);
}

static struct sheet make_sheet(const struct profile_process *p, struct profile_memory m)
{
	struct sheet s = { .pid = p->pid, .m = m };
	const uint64_t classes[] = { m.heap_bytes, m.anonymous_bytes, m.stack_bytes,
				     m.file_bytes, m.shared_bytes,    m.own_bytes };
	uint64_t sum = 0;

	s.at_ns = saturating_add(p->started_offset_ns, m.at_ns);
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		sum = saturating_add(sum, classes[i]);
	s.rest_bytes = saturating_sub(m.rss_bytes, sum);
	s.live_error = value_part(UNIT_BYTES, m.live_bytes, VARIANCE_BYTES, &p->sums).error;
	s.fragmentation_error =
		value_part(UNIT_BYTES, m.fragmentation_bytes, VARIANCE_LIVE_WASTE, &p->sums).error;
	s.rest_error = hypotf(s.live_error, s.fragmentation_error);
	return s;
}

/* The time that text output shows: the sheet nearest to it is used. */
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

static void add_aligned(struct sentences *s, const char *label, struct words *w,
			const char *meaning)
{
	struct words more = { 0 };

	words_text(&more, meaning);
	sentences_add(s, label, w, &more);
	if (s->list.count)
		s->list.at[s->list.count - 1].aligned = true;
}

/* Mappings are resident as far as they were touched. */
static const char *mapped_meaning(struct sentences *s, const struct sheet *t)
{
	const char *text = "the program's own mmap";

	if (!t->m.mapped_untouched_bytes)
		return text;
	return arena_printf(&s->result->arena, "%s; %s more of it are not resident", text,
			    units_bytes(t->m.mapped_untouched_bytes).text);
}

static const char *unrecorded_meaning(struct sentences *s, const struct profile_memory *m)
{
	const char *text = "not in any recorded allocation or mapping";
	if (m->changed_bytes < m->unrecorded_bytes / 2 || m->unrecorded_bytes < LEAST_HELD)
		return text;
	return arena_printf(&s->result->arena, "%s, or it changed while this was read", text);
}

static const char *stacks_meaning(struct sentences *s, const struct profile_memory *m)
{
	if (!m->stack_reserved_bytes)
		return "of all threads";
	return arena_printf(&s->result->arena, "of all threads, of %s reserved; the largest %s",
			    units_bytes(m->stack_reserved_bytes).text,
			    units_bytes(m->stack_largest_bytes).text);
}

static const char *untouched_meaning(const struct sheet *t)
{
	const float errors = 3; /* of a claim */

	if ((float)t->m.untouched_bytes < errors * t->rest_error)
		return "more than is resident; may be sampling error";
	return t->m.swap_bytes ? "of these: not resident, or swapped out"
			       : "of these: in pages that are not resident";
}

static void describe_sheet(struct sentences *s, const struct sheet *t)
{
	const struct profile_memory *m = &t->m;
	const bool parts = m->has_parts;
	const struct {
		const char *label;
		uint64_t bytes;
		bool always; /* even if it is 0 */
		bool known;
		const char *meaning;
		float error;
	} lines[] = {
		{ "requested", m->live_bytes, true, true, "allocated and not freed",
		  t->live_error },
		{ "+ rounding", m->fragmentation_bytes, true, true,
		  "usable beyond the requested size", t->fragmentation_error },
		{ "- untouched", m->untouched_bytes, false, parts, untouched_meaning(t),
		  t->rest_error },
		{ "+ mapped", m->mapped_bytes,
		  m->mapped_untouched_bytes || (!parts && m->map_live_bytes), parts,
		  mapped_meaning(s, t), 0 },
		{ "+ held", m->beyond_bytes, true, parts,
		  "by the allocator: free and not returned, headers, never allocated",
		  t->rest_error },
		{ "+ inherited", m->inherited_bytes, false, parts,
		  "by fork: present before its first allocation", 0 },
		{ "+ static data", m->static_bytes, false, parts,
		  ".bss (zero-initialized variables)", 0 },
		{ "+ not recorded", m->unrecorded_bytes, true, parts, unrecorded_meaning(s, m), 0 },
		{ "= private", m->private_bytes, true, true, "heap and other anonymous memory", 0 },
		{ "+ stacks", m->stack_bytes, true, true, stacks_meaning(s, m), 0 },
		{ "+ files", m->file_bytes, true, true, "programs, libraries, mapped files", 0 },
		{ "+ shared", m->shared_bytes, false, true, "with other processes", 0 },
		{ "+ recorder", m->own_bytes, true, true, "what recording costs", 0 },
		{ "+ rest", t->rest_bytes, false, true, "in no class", 0 },
		{ "= RSS", m->rss_bytes, true, true, "resident, as the kernel counts it", 0 },
		{ "swap", m->swap_bytes, false, true, "no longer resident", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct words w = { 0 };

		if (!lines[i].bytes && !lines[i].always)
			continue;
		words_add(&w, !lines[i].known
				      ? value_text("unknown")
				      : (struct result_value){
						.unit = UNIT_BYTES,
						.number = lines[i].bytes,
						.error = lines[i].bytes ? lines[i].error : 0 });
		add_aligned(s, lines[i].label, &w, lines[i].meaning);
	}
}

static void describe_group(struct sentences *s, const struct profile_memory *m)
{
	struct words w = { 0 }, more = { 0 };

	if (!m->cgroup_limit_bytes)
		return;
	words_add(&w, value_bytes(m->cgroup_usage_bytes));
	text_format(&more, "in use of the limit of {}, {}", value_bytes(m->cgroup_limit_bytes),
		    value_percent(m->cgroup_usage_bytes, m->cgroup_limit_bytes));
	sentences_add(s, "control group", &w, &more);
	if (s->list.count)
		s->list.at[s->list.count - 1].aligned = true;
}

static void describe_system(struct sentences *s, const struct profile_memory *m)
{
	struct words w = { 0 }, more = { 0 };

	if (!m->system_bytes)
		return;
	words_add(&w, value_bytes(m->system_available_bytes));
	text_format(&more, "available of {}; {} of files cached", value_bytes(m->system_bytes),
		    value_bytes(m->system_cached_bytes));
	if (m->system_swap_bytes)
		text_format(&more, "; {} swapped out", value_bytes(m->system_swap_bytes));
	sentences_add(s, "machine", &w, &more);
	if (s->list.count)
		s->list.at[s->list.count - 1].aligned = true;
}

/* The distance of the sheet from the requested moment; for the peak, also the difference in live bytes. */
static void words_distance(struct words *w, const struct profile_process *p,
			   const struct sheet *sheet, struct moment at)
{
	uint64_t wanted = wanted_ns(p, at);
	const char *name = at.kind == MOMENT_PEAK ? "the peak" : "the requested moment";

	if (wanted == UINT64_MAX) {
		wanted = saturating_add(p->started_offset_ns, p->duration_ns);
		name = p->end == PROFILE_RUNNING ? "now" : "the end";
	}
	if (wanted == sheet->at_ns)
		return;
	text_format(w, wanted > sheet->at_ns ? ", {} before {}" : ", {} after {}",
		    value_ns(wanted > sheet->at_ns ? wanted - sheet->at_ns : sheet->at_ns - wanted),
		    value_text(name));
	if (at.kind == MOMENT_PEAK) {
		bool less = sheet->m.live_bytes <= p->peak_bytes;

		text_format(
			w, less ? " and {} of live heap below it" : " and {} of live heap above it",
			value_bytes(less ? p->peak_bytes - sheet->m.live_bytes
					 : sheet->m.live_bytes - p->peak_bytes));
	}
}

static bool any_runs(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile->processes[i].end == PROFILE_RUNNING)
			return true;
	return false;
}

/* The sheet tells how much the allocator keeps; why is in the views of pages. */
static void describe_way_to_pages(struct sentences *s, const struct profile *profile,
				  const struct profile_process *p, const struct profile_memory *m)
{
	struct words w = { 0 };

	if (strcmp(p->mode, "exact") != 0 || !m->has_parts || m->beyond_bytes < LEAST_HELD ||
	    m->beyond_bytes < m->rss_bytes / 4)
		return;
	words_text(&w, profile_has_pages(p)
			       ? "which blocks keep what the allocator holds -> --view pins"
		       : strstr(profile->options, "--pages-on")
			       ? "which blocks keep what the allocator holds -> --view pins, with "
				 "--pid while it runs; --pages-on read no pages in this run"
			       : "which blocks keep what the allocator holds -> --view pins, with "
				 "--pid while it runs, or of a recording with --pages-on end");
	sentences_add(s, "next", &w, NULL);
}

static bool describe_all(struct result *result, const struct profile *profile,
			 const struct profile_process *p, struct moment at)
{
	struct sentences s = { .result = result };
	struct words w = { 0 };
	struct sheet sheet = { 0 };

	words_headline(&w, result, profile);
	if (!p || !nearest_sheet(p, wanted_ns(p, at), &sheet)) {
		words_text(
			&w,
			any_runs(profile)
				? "not known where the memory is: only 'report --pid' and 'record' read that"
				: "not known where the memory was: it ended before it was observed");
		sentences_add(&s, NULL, &w, NULL);
		return sentences_end(&s);
	}
	if (profile->process_count > 1)
		words_text(&w, arena_printf(&result->arena, "pid %u: %s  ", p->pid,
					    command_short(&result->arena, p->command)));
	text_format(&w, "where the memory was at {}", value_ns(sheet.at_ns));
	words_distance(&w, p, &sheet, at);
	sentences_add(&s, NULL, &w, NULL);
	describe_sheet(&s, &sheet);
	describe_group(&s, &sheet.m);
	describe_system(&s, &sheet.m);
	struct coverage coverage =
		sheet.m.has_parts ? coverage_of_process(profile, p) : (struct coverage){ 0 };

	coverage_describe(&s, profile, p, &coverage);
	describe_way_to_pages(&s, profile, p, &sheet.m);
	return sentences_end(&s);
}

static void put_row(struct result_value *values, const struct sheet *sheet)
{
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		bool unknown = (is_part(columns[i].offset) && !sheet->m.has_parts) ||
			       (is_newer(columns[i].offset) && !sheet->m.vm_bytes);

		values[i] = unknown ? value_unknown() : source_value(&columns[i], sheet);
		values[i].error = error_of(sheet, columns[i].offset);
	}
}

/* All sheets, or for each process the one nearest to the requested moment. */
static bool fill_table(struct result *result, const struct profile *profile, const bool *wanted,
		       struct moment at)
{
	struct result_column *shown = result_columns(result, columns, ARRAY_SIZE(columns));
	size_t most = 0, rows = 0;

	for (size_t i = 0; i < profile->process_count; i++)
		most += wanted[i] ? profile_memory_count(&profile->processes[i]) : 0;
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, most * ARRAY_SIZE(columns));

	if (!shown || !values)
		return false;
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];
		struct sheet sheet = { 0 };

		if (wanted[i] && at.kind != MOMENT_DEFAULT) {
			if (nearest_sheet(p, wanted_ns(p, at), &sheet))
				put_row(&values[rows++ * ARRAY_SIZE(columns)], &sheet);
			continue;
		}
		for (size_t j = 0; wanted[i] && j < profile_memory_count(p); j++) {
			sheet = make_sheet(p, profile_memory_at(p, j));
			put_row(&values[rows++ * ARRAY_SIZE(columns)], &sheet);
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

/* Resolves snap:N to a time. */
static int settle_moment(const struct profile *profile, struct moment *at, struct arena *scratch,
			 struct error *error)
{
	if (at->kind != MOMENT_SNAP)
		return 0;
	const struct resolved_moment *moments =
		moments_resolve(profile, *at, false, scratch, error);

	if (!moments)
		return -1;
	for (size_t i = 0; i < profile->process_count; i++)
		if (moments[i].kind == RESOLVED_SNAPSHOT)
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

struct result *analyse_memory(const struct profile *profile, struct locations *locations,
			      const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const bool *wanted = processes_choose(profile, query, &scratch, error);
	struct moment at = query->at;

	(void)locations;
	if (!wanted || settle_moment(profile, &at, &scratch, error) < 0)
		return NULL;
	struct result *result = result_begin("memory", profile, query, 0);

	return result_end(
		result,
		result && fill_table(result, profile, wanted, at) &&
			describe_all(result, profile, largest_wanted(profile, wanted), at) &&
			result_notes(result, profile, NULL, NULL),
		error);
}
