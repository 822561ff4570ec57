/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the profile of a recording: checks every id, sums the counters of each site, and turns defects
 * of the file into notes that every report shows.
 *
 * The profile takes ownership of the rows, which stay in place; derived data (sites with their sums, the
 * order of counters by site) is in the profile's arena. Costs one pass over nodes and counters; names
 * and distributions are computed on demand.
 *
 * Invariant: a returned profile holds no id outside its table.
 */
#include "model/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "format/live/live_own.h"
#include "model/estimates.h"
#include "model/history.h"
#include "model/missed.h"
#include "model/frames/fold.h"
#include "model/same_sites.h"
#include "model/site_sums.h"
#include "model/threads.h"
#include "model/unrecorded.h"
#include "model/memory/pages.h"
#include "util/cleanup.h"
#include "util/files.h"

static const char *text_or_empty(const char *text)
{
	return text ? text : "";
}

/* Node 0 is the root regardless of the file; a caller comes before its callees. */
static void check_nodes(struct process_rows *rows, uint64_t *damaged)
{
	for (size_t i = 0; i < rows->node_count; i++) {
		struct node_row *node = &rows->nodes[i];

		if (i == 0) {
			*node = (struct node_row){ 0, 0 };
		} else if (node->parent >= i) {
			node->parent = 0;
			++*damaged;
		}
		if (i > 0 && node->frame >= rows->frame_count) {
			node->frame = UINT32_MAX;
			++*damaged;
		}
	}
}

static void check_sites(struct process_rows *rows, uint64_t *damaged)
{
	for (size_t i = 0; i < rows->site_count; i++) {
		struct site_row *site = &rows->sites[i];

		if (site->node >= MAX(rows->node_count, (size_t)1)) {
			site->node = 0;
			++*damaged;
		}
		if (site->kind >= LIVE_KINDS) {
			site->kind = LIVE_KIND_HEAP;
			++*damaged;
		}
		if (site->tag >= (live_tag_is_site(site->kind) ? rows->site_count
							       : MAX(rows->tag_count, (size_t)1))) {
			site->tag = 0;
			++*damaged;
		}
		if (site->entry >= LIVE_ENTRIES) {
			site->entry = LIVE_ENTRY_UNKNOWN;
			++*damaged;
		}
	}
}

static void check_site_counters(struct process_rows *rows, uint64_t *damaged)
{
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		struct site_counters_row *counters = &rows->site_counters[i];

		if (counters->site >= rows->site_count) {
			counters->site = 0; /* no site: not summed */
			++*damaged;
		}
		if (!range_within(counters->sizes_at, counters->sizes_count, rows->bar_count)) {
			counters->sizes_count = 0;
			++*damaged;
		}
		if (!range_within(counters->lifetimes_at, counters->lifetimes_count,
				  rows->bar_count)) {
			counters->lifetimes_count = 0;
			++*damaged;
		}
	}
}

static void check_ages(struct process_rows *rows, uint64_t *damaged)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->age_count; i++) {
		if (rows->ages[i].counters < rows->site_counters_count &&
		    rows->ages[i].bucket <= 64)
			rows->ages[kept++] = rows->ages[i];
		else
			++*damaged;
	}
	rows->age_count = kept;
}

static void check_live_sizes(struct process_rows *rows, uint64_t *damaged)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->live_size_count; i++) {
		const struct live_size_row *row = &rows->live_sizes[i];

		if (row->counters < rows->site_counters_count && row->low <= row->high)
			rows->live_sizes[kept++] = *row;
		else
			++*damaged;
	}
	rows->live_size_count = kept;
}

/* Tables by slot are sized by the largest slot: a bogus one must not make them huge. */
static void check_slots(struct process_rows *rows, uint64_t *damaged)
{
	for (size_t i = 0; i < rows->site_counters_count; i++)
		if (rows->site_counters[i].slot >= LIVE_SLOTS_MAX) {
			rows->site_counters[i].slot = 0;
			++*damaged;
		}
	size_t threads = 0;

	for (size_t i = 0; i < rows->thread_count; i++) {
		struct thread_row thread = rows->threads[i];

		if (thread.tid == 0)
			continue; /* it was about to register */
		if (thread.slot >= LIVE_SLOTS_MAX) {
			thread.slot = 0;
			++*damaged;
		}
		rows->threads[threads++] = thread;
	}
	rows->thread_count = threads;
	for (size_t i = 0; i < rows->remote_frees_count; i++) {
		struct remote_frees_row *f = &rows->remote_frees[i];

		if (f->freer >= LIVE_SLOTS_MAX || f->kind >= LIVE_MEMORY_KINDS ||
		    (f->owner >= LIVE_SLOTS_MAX && f->owner != UINT32_MAX)) {
			*f = (struct remote_frees_row){ 0 };
			++*damaged;
		}
	}
}

static void check_snapshots(struct process_rows *rows, uint64_t *damaged)
{
	for (size_t i = 0; i < rows->snapshot_count; i++) {
		struct snapshot_row *row = &rows->snapshots[i];

		if (!range_within(row->sites_at, row->sites_count, rows->snapshot_site_count)) {
			row->sites_count = 0;
			++*damaged;
		}
	}
	for (size_t i = 0; i < rows->snapshot_site_count; i++)
		if (rows->snapshot_sites[i].site >= rows->site_count) {
			rows->snapshot_sites[i].site = 0; /* no site */
			++*damaged;
		}
}

static void check_marks(struct process_rows *rows, uint64_t *damaged)
{
	for (size_t i = 0; i < rows->mark_count; i++)
		if (rows->marks[i].snapshot > rows->snapshot_count) {
			rows->marks[i].snapshot = 0;
			++*damaged;
		}
}

static int take_modules(struct profile_process *p, const struct process_rows *rows,
			struct arena *arena)
{
	struct profile_module *modules =
		ARENA_ARRAY(arena, struct profile_module, rows->module_count + 1);

	if (!modules)
		return -1;
	modules[0].path = "";
	for (size_t i = 1; i < rows->module_count; i++) {
		const struct module_row *m = &rows->modules[i];
		size_t bytes = MIN((size_t)m->build_id_bytes, sizeof m->build_id);

		modules[i].path = text_or_empty(m->path);
		modules[i].build_id = span_of(m->build_id, bytes);
	}
	p->modules = modules;
	p->module_count = MAX(rows->module_count, (size_t)1);
	return 0;
}

static int take_health(struct profile_process *p, const struct process_row *row,
		       struct arena *arena)
{
	struct profile_note *notes = ARENA_ARRAY(arena, struct profile_note, HEALTH_COUNT);
	size_t count = 0;

	if (!notes)
		return -1;
	for (size_t i = 0; i < HEALTH_COUNT; i++) {
		uint64_t lost = row->health[i];

		/* In a process that keeps its own clock, each thread counts the same gap. */
		if (i == HEALTH_clock_stopped_ms)
			lost = MIN(lost, row->duration_ns / 1000000);
		if (lost)
			notes[count++] = (struct profile_note){ health_rows[i].name,
								health_rows[i].text, lost };
	}
	p->health = (struct profile_notes){ notes, count };
	return 0;
}

static enum profile_end end_of(uint32_t end)
{
	switch (end) {
	case END_EXIT:
		return PROFILE_EXITED;
	case END_SIGNAL:
		return PROFILE_SIGNALLED;
	case END_KILLED:
		return PROFILE_KILLED;
	case END_EXEC:
		return PROFILE_BECAME;
	case END_UNKNOWN:
		return PROFILE_ENDED;
	default:
		return PROFILE_RUNNING;
	}
}

static void take_totals(struct profile_process *p, const struct process_rows *rows)
{
	const struct process_row *row = &rows->process;

	p->pid = row->pid;
	p->ppid = row->ppid;
	p->rank = row->rank;
	p->uid = row->uid;
	p->command = text_or_empty(row->command);
	p->exe = text_or_empty(row->exe);
	p->allocator = text_or_empty(row->allocator);
	p->linked_in = text_or_empty(row->linked_in);
	p->end = end_of(row->end);
	p->exit_code = row->exit_code;
	p->started_real_ns = row->started_real_ns;
	p->duration_ns = row->duration_ns;
	p->started_offset_ns = row->started_offset_ns;

	p->calls = row->calls;
	p->bytes = row->bytes;
	p->counts_all = row->all_calls != 0;
	p->all_calls = p->counts_all ? row->all_calls : row->calls;
	p->all_bytes = p->counts_all ? row->all_bytes : row->bytes;
	p->frees = row->frees;
	p->freed_bytes = row->freed_bytes;
	p->live_blocks = saturating_sub(row->calls, row->frees);
	p->live_bytes = saturating_sub(row->bytes, row->freed_bytes);
	p->temporary_calls = row->temporary;
	p->peak_bytes = row->peak_bytes;
	p->peak_blocks = row->peak_blocks;
	p->peak_at_ns = row->peak_at_ns;
	p->peak_bound_bytes = row->peak_bound_bytes;
	p->live_bound = (struct live_bound){ row->live_bound_bytes, row->live_bound_blocks };
	if (row->end == END_RUNNING && !row->imported)
		profile_limit_live(p, &p->live_bytes, &p->live_bound.bytes);

	p->mmap_calls = row->map_calls;
	p->mmap_bytes = row->map_bytes;
	p->mmap_live_bytes = saturating_sub(row->map_bytes, row->unmap_bytes);
	p->mmap_peak_bytes = row->map_peak_bytes;

	p->peak_rss_bytes = row->peak_rss_bytes;
	p->rss_bytes = row->rss_bytes;
	p->own_bytes = row->own_bytes;
	p->threads = rows->thread_count;
	p->frame_count = rows->frame_count;
	p->node_count = MAX(rows->node_count, (size_t)1);
	p->depth_limit = row->depth_limit;
	p->imported = row->imported != NOT_IMPORTED;
	p->has_totals = row->imported != IMPORTED_LIVE_ONLY;
	for (size_t i = 1; i < rows->tag_count; i++)
		p->has_python_pools |= rows->tags[i].pools && rows->tags[i].text &&
				       strcmp(rows->tags[i].text, LIVE_PYTHON_OBJECTS) == 0;
}

/* If the mode changed while the program ran, there are sites of several modes. MARK_OTHER sites, whose stacks were
 * not kept, say nothing about the mode. */
static const char *mode_of(const struct profile_process *p, uint32_t at_end)
{
	static const char *const words[] = { [LIVE_MODE_DORMANT] = "dormant",
					     [LIVE_MODE_TAGS] = "tags",
					     [LIVE_MODE_SAMPLE] = "sampled",
					     [LIVE_MODE_EXACT] = "exact" };
	bool exact = false, has_stacks = false;

	if (p->imported && at_end == IMPORTED_MODE_UNKNOWN)
		return "unknown";
	for (size_t i = 0; i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];
		enum profile_mark mark = profile_innermost(p, site->node).mark;

		if (site->kind != PROFILE_HEAP || !site->has_exact || mark == MARK_OTHER)
			continue;
		exact = true;
		has_stacks |= mark != MARK_STACK_OFF;
	}
	if (p->interval)
		return exact ? "mixed" : "sampled";
	if (exact)
		return has_stacks ? "exact" : "tags";
	/* Nothing was recorded: report the configured mode. */
	return at_end < ARRAY_SIZE(words) ? words[at_end] : "dormant";
}

static void sum_sites(struct profile_process *p)
{
	for (size_t i = 0; i < p->site_count; i++) {
		if (p->sites[i].kind != PROFILE_HEAP)
			continue;
		p->interval = MAX(p->interval, p->sites[i].interval);
		estimates_add(&p->sums, &p->sites[i].numbers);
	}
	p->samples = p->sums.samples;
	p->peak_bias_bytes = p->imported ? 0 : estimate_peak_bias(&p->sums);
}

/* Replaces every invalid id in the rows. *damaged: how many there were. */
static void check_rows(struct process_rows *rows, uint64_t *damaged)
{
	check_nodes(rows, damaged);
	check_sites(rows, damaged);
	check_site_counters(rows, damaged);
	check_ages(rows, damaged);
	check_live_sizes(rows, damaged);
	check_slots(rows, damaged);
	check_snapshots(rows, damaged);
	check_marks(rows, damaged);
}

/* Pre: the rows were checked. Adds |calls of the process - calls of its sites| to *unbalanced_calls. */
static int build_process(struct profile_process *p, struct process_rows *rows,
			 struct fold_options fold, struct arena *arena, uint64_t *unbalanced_calls)
{
	p->rows = rows;
	take_totals(p, rows);
	if (take_modules(p, rows, arena) < 0 || take_health(p, &rows->process, arena) < 0 ||
	    fold_build(p, fold, arena) < 0 || same_sites_build(p, arena) < 0 ||
	    pages_build(p, arena) < 0 || site_sums_build(p, arena) < 0 ||
	    threads_build(p, arena) < 0)
		return -1;
	sum_sites(p);
	p->mode = mode_of(p, rows->process.mode);
	if (rows->memory_count)
		p->memory = profile_memory_at(p, rows->memory_count - 1);

	uint64_t calls = 0;

	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].kind == PROFILE_HEAP)
			calls = saturating_add(calls, p->sites[i].numbers.calls);
	*unbalanced_calls += calls > p->calls ? calls - p->calls : p->calls - calls;
	return 0;
}

static int take_warnings(struct profile *profile, uint64_t unbalanced_calls)
{
	const struct recording_warnings *w = &profile->recording->warnings;
	const struct profile_note all[] = {
		{ "cut_bytes",
		  "bytes at the end of the file are not a whole chunk: the file was cut",
		  w->cut_bytes },
		{ "bad_chunks", "chunks of the file are damaged and were left out", w->bad_chunks },
		{ "unknown_chunks", "chunks of the file are newer than this program: left out",
		  w->unknown_chunks },
		{ "unfinished", "recording was not finished: the collector was stopped early",
		  w->unfinished != 0 },
		{ "raised_totals",
		  "stacks have a total below what is live, because both are estimates: it was raised "
		  "to that",
		  w->raised_sites },
		{ "damaged_rows", "rows of the file point outside it and were left out",
		  profile->damaged_rows },
		{ "unbalanced_calls",
		  "calls are in the totals or in the sites, but not in both (the process was read "
		  "in the middle of them)",
		  unbalanced_calls },
	};
	struct profile_note *notes = ARENA_ARRAY(&profile->arena, struct profile_note,
						 ARRAY_SIZE(all) + MISSED_COUNT + 2);
	ptrdiff_t linked = notes ? linked_in_note(profile, &profile->arena, notes) : -1;
	ptrdiff_t unrecorded =
		linked < 0 ? -1 : unrecorded_note(profile, &profile->arena, notes + linked);
	ptrdiff_t missed = unrecorded < 0 ? -1
					  : missed_notes(&profile->recording->run, &profile->arena,
							 notes + linked + unrecorded);
	size_t count = (size_t)(linked + unrecorded + missed);

	if (missed < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].count)
			notes[count++] = all[i];
	profile->warnings = (struct profile_notes){ notes, count };
	return 0;
}

static int compare_starts(const void *left, const void *right)
{
	const struct process_row *a = &((const struct process_rows *)left)->process;
	const struct process_row *b = &((const struct process_rows *)right)->process;

	if (a->started_offset_ns != b->started_offset_ns)
		return a->started_offset_ns < b->started_offset_ns ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int build(struct profile *profile)
{
	struct recording *recording = profile->recording;
	const struct run_row *run = &recording->run;
	uint64_t unbalanced_calls = 0;

	profile->started_real_ns = run->started_real_ns;
	profile->duration_ns = run->duration_ns;
	profile->host = text_or_empty(run->host);
	profile->kernel = text_or_empty(run->kernel);
	profile->version = text_or_empty(run->version);
	profile->command = text_or_empty(run->command);
	profile->options = text_or_empty(run->options);
	profile->peak_bytes = run->peak_bytes;
	profile->peak_at_ns = run->peak_at_ns;
	profile->peak_bound_bytes = run->peak_bound_bytes;

	struct profile_process *processes =
		ARENA_ARRAY(&profile->arena, struct profile_process, recording->process_count);

	if (!processes)
		return -1;
	if (recording->process_count > 1)
		qsort(recording->processes, recording->process_count, sizeof *recording->processes,
		      compare_starts);
	for (size_t i = 0; i < recording->process_count; i++)
		if (build_process(&processes[i], &recording->processes[i], profile->fold,
				  &profile->arena, &unbalanced_calls) < 0)
			return -1;
	for (size_t i = 0; i < recording->process_count; i++)
		processes[i].own = &profile->own;
	profile->processes = processes;
	profile->process_count = recording->process_count;
	return take_warnings(profile, unbalanced_calls);
}

struct profile *profile_new(struct recording *taken, struct error *error)
{
	struct profile *profile = calloc(1, sizeof *profile);
	struct recording *recording = malloc(sizeof *recording);

	if (!profile || !recording) {
		free(profile);
		free(recording);
		recording_release(taken);
		error_set(error, "out of memory");
		return NULL;
	}
	*recording = *taken;
	*taken = (struct recording){ 0 };
	profile->recording = recording;
	for (size_t i = 0; i < recording->process_count; i++)
		check_rows(&recording->processes[i], &profile->damaged_rows);
	/* A rule that a newer version or a hostile file wrote is as none. */
	(void)!own_rule_parse(text_or_empty(recording->run.own_code), &profile->own, NULL);
	if (build(profile) < 0) {
		profile_free(profile);
		error_set(error, "out of memory");
		return NULL;
	}
	return profile;
}

int profile_fold(struct profile *profile, struct fold_options fold, struct error *error)
{
	if (fold_options_equal(fold, profile->fold))
		return 0;
	profile->process_count = 0;
	profile->warnings = (struct profile_notes){ 0 };
	arena_release(&profile->arena);
	profile->fold = fold;
	return build(profile) < 0 ? error_set(error, "out of memory") : 0;
}

int profile_set_own(struct profile *profile, const char *rule, struct error *error)
{
	struct own_rule parsed;

	if (own_rule_parse(rule, &parsed, error) < 0)
		return -1;
	own_rule_release(&profile->own);
	profile->own = parsed;
	return 0;
}

int profile_own_like(struct profile *profile, const struct profile *baseline, struct error *error)
{
	AUTO_FREE char *rule = NULL;

	if (baseline->own.kind == OWN_OFF)
		return profile_set_own(profile, "off", error);
	if (baseline->own.kind != OWN_REGEX)
		return 0;
	if (asprintf(&rule, "regex:%s", baseline->own.text) < 0) {
		rule = NULL;
		return error_set(error, "out of memory");
	}
	return profile_set_own(profile, rule, error);
}

void profile_free(struct profile *profile)
{
	if (!profile)
		return;
	own_rule_release(&profile->own);
	recording_release(profile->recording);
	free(profile->recording);
	arena_release(&profile->arena);
	free(profile);
}

struct profile *profile_load(const char *path, struct error *error)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct recording recording = { 0 };
	struct format_error reason = { { 0 } };

	if (file_map_open(&map, path, error) < 0)
		return NULL;
	if (recording_decode(map.bytes.data, map.bytes.size, &recording, &reason) < 0) {
		error_set(error, "%s: %s", path, reason.message);
		return NULL;
	}
	return profile_new(&recording, error);
}
