/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From sites to findings.
 *
 * One pass over the sites tests each rule's precondition on each site; sites that pass are summed
 * by rule and owner function, and then the rule decides. Sites are ordered by process, so that a
 * rule's data about a process is computed once. Each process is judged separately; findings of the
 * same rule and function in several processes are merged.
 */
#include "analysis/advice/findings.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/query/builtin.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/estimates.h"
#include "model/history.h"
#include "model/threads.h"

/* A standard error of at most a fifth: less certain numbers give no findings. */
enum { LEAST_SAMPLES = 30 };

typedef VECTOR(struct finding) finding_vector;

struct maker {
	struct findings *findings;
	struct locations *locations;
	struct advised *of;  /* the current process */
	finding_vector open; /* findings of the current process */
	finding_vector done;
	struct arena scratch;
};

/* Functions in which a full C++ container moves to a larger block. */
static bool regrows(struct location_chain stack)
{
	static const char *const names[] = { "_M_realloc_insert", "_M_realloc_append",
					     "__push_back_slow_path", "__emplace_back_slow_path" };

	for (size_t i = 0; i < stack.count; i++) {
		if (!stack.at[i]->runtime_frame)
			return false;
		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			if (strstr(stack.at[i]->frame.full, names[j]))
				return true;
	}
	return false;
}

/* Blocks that a slot freed in excess of those it allocated came from other slots. */
static uint64_t freed_elsewhere(const struct profile_process *p, site_id site)
{
	uint64_t count = 0;

	for (size_t i = 0; i < profile_counters_count(p, site); i++) {
		struct profile_counters counters = profile_counters(p, site, i);

		count = saturating_add(count,
				       saturating_sub(counters.frees_made, counters.numbers.calls));
	}
	return count;
}

static void add(uint64_t *sum, uint64_t part)
{
	*sum = saturating_add(*sum, part);
}

static struct tally tally_of(const struct advised *of, const struct profile_site *site,
			     struct location_chain stack)
{
	const struct site_numbers *n = &site->numbers;
	struct trend trend = trend_of_site(&of->trends, site);
	struct site_live held = advised_held(of, site);
	bool regrown = regrows(stack), growing = trend.verdict == TREND_GROWING;

	return (struct tally){
		.sites = 1,
		.temporary = n->temporary_calls,
		.fragmentation_bytes = n->fragmentation_bytes,
		.lifetime_ms = n->lifetime_ms_sum,
		.reallocs = n->reallocs,
		.regrown_calls = regrown ? n->calls : 0,
		.regrown_bytes = regrown ? n->bytes : 0,
		.elsewhere = freed_elsewhere(of->process, site->id),
		.growing_per_second = growing ? trend.per_second : 0,
		.confidence_per_mille = growing ? trend.confidence_per_mille : 0,
		.held_bytes = (uint64_t)held.bytes,
		.held_blocks = (uint64_t)held.blocks,
		.pages = profile_site_pages(of->process, site->id),
		.sums = *n,
	};
}

static void add_tally(struct tally *sum, const struct tally *t)
{
	sum->sites += t->sites;
	sum->processes += t->processes;
	add(&sum->process_peak_bytes, t->process_peak_bytes);
	add(&sum->process_ns, t->process_ns);
	add(&sum->temporary, t->temporary);
	add(&sum->fragmentation_bytes, t->fragmentation_bytes);
	add(&sum->lifetime_ms, t->lifetime_ms);
	reallocs_add(&sum->reallocs, &t->reallocs);
	add(&sum->regrown_calls, t->regrown_calls);
	add(&sum->regrown_bytes, t->regrown_bytes);
	add(&sum->elsewhere, t->elsewhere);
	sum->growing_per_second =
		saturating_add_signed(sum->growing_per_second, t->growing_per_second);
	if (t->confidence_per_mille &&
	    (!sum->confidence_per_mille || t->confidence_per_mille < sum->confidence_per_mille))
		sum->confidence_per_mille = t->confidence_per_mille;
	add(&sum->held_bytes, t->held_bytes);
	add(&sum->held_blocks, t->held_blocks);
	add(&sum->pages.blocks, t->pages.blocks);
	add(&sum->pages.live_bytes, t->pages.live_bytes);
	add(&sum->pages.sole_bytes, t->pages.sole_bytes);
	add(&sum->pages.arena_bytes, t->pages.arena_bytes);
	estimates_add(&sum->sums, &t->sums);
}

/* The program's author cannot change what libc, the loader and the runtimes do on their own. */
static bool is_runtimes_own(struct location_chain stack)
{
	bool beyond_runtime = false;

	for (size_t i = 0; i < stack.count; i++) {
		if (builtin_suppresses(&stack.at[i]->frame))
			return true;
		beyond_runtime |= !builtin_is_runtime(&stack.at[i]->frame);
	}
	return !beyond_runtime;
}

/* Returns the finding of the rule for the function, created on first use; NULL if out of memory. */
static struct finding *finding_at(struct maker *m, const struct rule_row *rule,
				  const struct advised *of, const struct location *owner)
{
	for (size_t i = 0; i < m->open.count; i++)
		if (m->open.at[i].rule == rule && m->open.at[i].owner->function == owner->function)
			return &m->open.at[i];
	const struct finding added = { .rule = rule,
				       .process = of->process,
				       .owner = owner,
				       .tally = { .processes = 1,
						  .process_peak_bytes = of->process->peak_bytes,
						  .process_ns = of->process->duration_ns },
				       .of = of };

	return vector_push(&m->open, added) ? &m->open.at[m->open.count - 1] : NULL;
}

static bool take_site(struct maker *m, const struct advised *of, const struct rule_row *rule,
		      const struct profile_site *site)
{
	struct location_chain stack;

	if (locations_stack(m->locations, of->process, site->node, &m->scratch, &stack) < 0)
		return false;
	const struct location *owner = locations_owner(stack);

	if (!owner || is_runtimes_own(stack))
		return true;
	struct finding *f = finding_at(m, rule, of, owner);

	if (!f)
		return false;
	struct tally_site *member = ARENA_NEW(&m->scratch, struct tally_site);

	if (!member)
		return false;
	*member = (struct tally_site){ f->tally.members, site->id };
	f->tally.members = member;
	if (!f->site || site->numbers.bytes > f->site->numbers.bytes) {
		f->site = site;
		f->owner = owner;
	}
	const struct tally one = tally_of(of, site, stack);

	add_tally(&f->tally, &one);
	return true;
}

/* Computes the maximum over the snapshots of what was live besides the tally's sites. A snapshot's total is not from the same moment as
 * its sites, so that subtracting these would be wrong. */
static bool check_history(struct maker *m, struct finding *f)
{
	const struct profile_process *p = f->process;
	size_t sites = profile_site_ids(p);
	bool *others = ARENA_ARRAY(&m->scratch, bool, sites);
	int64_t *values = ARENA_ARRAY(&m->scratch, int64_t, sites);
	double rest = 0;

	if (!others || !values)
		return false;
	for (size_t i = 0; i < p->site_count; i++)
		others[p->sites[i].id.v] = p->sites[i].kind == PROFILE_HEAP;
	for (const struct tally_site *s = f->tally.members; s; s = s->next)
		others[s->id.v] = false;
	for (size_t i = 0; i < profile_snapshot_count(p); i++) {
		struct profile_snapshot snapshot = profile_snapshot(p, i);

		for (size_t j = 0; j < snapshot.change_count; j++) {
			struct profile_change change = profile_change(p, i, j);

			if (!others[change.site.v])
				continue;
			rest += (double)change.live.bytes - (double)values[change.site.v];
			values[change.site.v] = change.live.bytes;
		}
		f->tally.most_without = MAX(f->tally.most_without, saturating_u64(rest));
	}
	return true;
}

static bool has_enough_samples(const struct tally *t)
{
	return t->sums.samples == 0 || t->sums.samples >= LEAST_SAMPLES;
}

/* Ends a process: keeps the findings that hold. */
static bool close_process(struct maker *m)
{
	for (size_t i = 0; i < m->open.count; i++) {
		struct finding *f = &m->open.at[i];

		if (!has_enough_samples(&f->tally))
			continue;
		if (f->rule->looks_back && !check_history(m, f))
			return false;
		f->tally.members = NULL; /* freed with the process */
		if (f->rule->holds(f->of, &f->tally, &f->saving) && !vector_push(&m->done, *f))
			return false;
	}
	m->open.count = 0;
	arena_release(&m->scratch);
	return true;
}

struct site_live advised_held(const struct advised *of, const struct profile_site *site)
{
	struct site_live none = { 0 };

	if (!of->held)
		return none;
	const struct site_live *held = &of->held[site->id.v];

	/* May be negative if read in the middle of a call. */
	return held->bytes > 0 && held->blocks > 0 ? *held : none;
}

/* Events older than this have settled. */
#define SETTLED_NS 300000000ull

struct profile_memory findings_last_sheet(const struct profile_process *p)
{
	struct profile_memory last = p->memory, at = last;

	for (size_t i = profile_memory_count(p); i > 1 && at.at_ns + SETTLED_NS >= p->duration_ns;
	     i--) {
		at = profile_memory_at(p, i - 2);
		if (at.live_bytes > last.live_bytes)
			last = at;
	}
	return last;
}

static uint64_t live_apart(const struct profile_process *p, const struct profile_memory *m,
			   size_t snapshot)
{
	uint64_t a = profile_snapshot(p, snapshot).live_bytes, b = m->live_bytes;

	return MAX(a, b) - MIN(a, b);
}

/* The snapshot that shows the owners of the memory on the sheet: the last before the sheet or the first after it, whichever has
 * about as much live. The nearest in time may be the end, when all was freed. Pre: there is a snapshot. */
static size_t nearest_snapshot(const struct profile_process *p, const struct profile_memory *m)
{
	size_t after = 0, count = profile_snapshot_count(p);

	while (after < count && profile_snapshot(p, after).at_ns <= m->at_ns)
		after++;
	if (after == 0 || (after < count && live_apart(p, m, after) < live_apart(p, m, after - 1)))
		return after;
	return after - 1;
}

/* Whether the heap has been this small for long enough: memory freed just now may soon be reused or returned. */
static bool is_settled(const struct profile_process *p, const struct profile_memory *m)
{
	uint64_t large_at_ns = p->peak_at_ns;

	for (size_t i = 0; i < profile_snapshot_count(p); i++) {
		struct profile_snapshot s = profile_snapshot(p, i);

		if (s.live_bytes / 3 > m->live_bytes / 2 && s.at_ns <= m->at_ns)
			large_at_ns = MAX(large_at_ns, s.at_ns);
	}
	return m->at_ns >= SETTLED_NS && m->at_ns - SETTLED_NS >= large_at_ns;
}

/* Whether no pages were touched for a while, except for new blocks: memory still untouched will probably stay so. */
static bool is_touched_no_more(const struct profile_process *p, const struct profile_memory *last)
{
	static const uint64_t noise_bytes = 128 * 1024;

	for (size_t i = profile_memory_count(p); i > 0; i--) {
		struct profile_memory m = profile_memory_at(p, i - 1);
		uint64_t before = saturating_add(m.heap_bytes, m.anonymous_bytes);
		uint64_t grown = saturating_sub(last->live_bytes, m.live_bytes);

		if (m.at_ns <= saturating_sub(last->at_ns, SETTLED_NS))
			return last->heap_bytes + last->anonymous_bytes <=
			       before + grown + noise_bytes;
	}
	return false;
}

/* Large blocks usually are anonymous mappings; the others are in glibc's main heap, or in mappings as well. */
static bool read_memory_sheets(struct advised *of, struct arena *arena)
{
	const struct profile_process *p = of->process;
	const struct profile_memory last = findings_last_sheet(p), *m = &last;
	uint64_t usable = saturating_add(m->live_bytes, m->fragmentation_bytes);

	if (!m->has_parts || profile_snapshot_count(p) == 0)
		return true;
	of->held = profile_live_at(p, nearest_snapshot(p, m), arena);
	if (!of->held)
		return false;
	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].kind == PROFILE_HEAP && site_blocks_are_large(&p->sites[i].numbers))
			add(&of->large_bytes, (uint64_t)advised_held(of, &p->sites[i]).bytes);
	/* glibc places large blocks in its heap as well once it has raised its threshold. The page map knows how much is resident, but the live
	 * bytes of a sampled process are an estimate. */
	if (!p->interval && is_touched_no_more(p, m))
		of->untouched_bytes =
			MIN(m->untouched_bytes,
			    saturating_sub(of->large_bytes,
					   saturating_add(m->anonymous_bytes, m->swap_bytes)));
	if (is_settled(p, m))
		of->unused_bytes =
			MAX(m->beyond_bytes,
			    saturating_sub(m->heap_bytes, saturating_sub(usable, of->large_bytes)));
	return true;
}

static struct advised *new_process(struct maker *m, const struct profile_process *process)
{
	struct arena *arena = &m->findings->arena;
	struct advised *of = ARENA_NEW(arena, struct advised);

	if (!of || trends_make(process, arena, &of->trends) < 0 ||
	    profile_ages(process, NULL, arena, &of->ages) < 0)
		return NULL;
	of->process = process;
	of->growth = trends_growth(&of->trends);
	of->before = m->findings->last;
	return read_memory_sheets(of, arena) ? of : NULL;
}

/* Sites arrive process by process. */
static bool visit(struct maker *m, const struct profile_process *process,
		  const struct profile_site *site)
{
	if (!m->of || m->of->process != process) {
		struct advised *of = close_process(m) ? new_process(m, process) : NULL;

		if (!of)
			return false;
		m->findings->last = m->of = of;
	}
	for (size_t i = 0; i < rule_count; i++)
		if (rule_rows[i].may(m->of, site) && !take_site(m, m->of, &rule_rows[i], site))
			return false;
	return true;
}

static uint64_t saved_memory(const struct saving *s)
{
	uint64_t unused = saturating_add(s->reserved_bytes, s->resident_bytes);

	return saturating_add(saturating_add(s->peak_bytes, s->leaked_bytes), unused);
}

static int descending(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_savings(const struct saving *a, const struct saving *b)
{
	int order = descending(saved_memory(a), saved_memory(b));

	if (!order)
		order = descending(a->copied_bytes, b->copied_bytes);
	return order ? order
		     : descending(saturating_add(a->calls, a->remote_frees),
				  saturating_add(b->calls, b->remote_frees));
}

static int compare_findings(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;
	int order = compare_savings(&a->saving, &b->saving);

	if (order)
		return order;
	if (a->rule != b->rule)
		return a->rule < b->rule ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->site->id.v < b->site->id.v ? -1 : 1;
}

static void add_saving(struct saving *sum, const struct saving *s)
{
	add(&sum->peak_bytes, s->peak_bytes);
	add(&sum->copied_bytes, s->copied_bytes);
	add(&sum->leaked_bytes, s->leaked_bytes);
	add(&sum->calls, s->calls);
	add(&sum->remote_frees, s->remote_frees);
	add(&sum->reserved_bytes, s->reserved_bytes);
	add(&sum->resident_bytes, s->resident_bytes);
	sum->bytes_per_second = saturating_add_signed(sum->bytes_per_second, s->bytes_per_second);
}

/* Orders by function, then by rule. */
static int compare_subjects(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;

	if (a->owner->function != b->owner->function)
		return a->owner->function < b->owner->function ? -1 : 1;
	if (a->rule != b->rule)
		return a->rule < b->rule ? -1 : 1;
	return compare_findings(a, b);
}

/* Merges findings of the same rule and function. Drops advice on storage for leaked blocks: they should not exist. */
static void merge(finding_vector *v)
{
	size_t kept = 0;
	const struct finding *leak = NULL;

	if (v->count)
		qsort(v->at, v->count, sizeof *v->at, compare_subjects);
	for (size_t i = 0; i < v->count; i++) {
		struct finding *f = &v->at[i], *last = kept ? &v->at[kept - 1] : NULL;

		if (last && last->rule == f->rule && last->owner->function == f->owner->function) {
			add_tally(&last->tally, &f->tally);
			add_saving(&last->saving, &f->saving);
			continue;
		}
		if (leak && f->rule->is_of_storage && leak->owner->function == f->owner->function)
			continue;
		v->at[kept] = *f;
		if (f->rule == &rule_rows[RULE_NOT_FREED])
			leak = &v->at[kept];
		kept++;
	}
	v->count = kept;
}

/* Completes the findings after all sites were visited, or cleans up if that failed. */
static int finish(struct maker *m, bool visited)
{
	struct findings *findings = m->findings;
	int status = -1;

	if (visited && close_process(m)) {
		merge(&m->done);
		findings->at = arena_copy(&findings->arena, m->done.at,
					  m->done.count * sizeof *m->done.at);
		findings->count = m->done.count;
		status = findings->at ? 0 : -1;
	}
	if (status == 0 && findings->count)
		qsort(findings->at, findings->count, sizeof *findings->at, compare_findings);
	vector_release(&m->open);
	vector_release(&m->done);
	arena_release(&m->scratch);
	if (status < 0)
		findings_release(findings);
	return status;
}

int findings_make(struct findings *findings, const struct selection *selection,
		  struct locations *locations)
{
	struct maker m = { .findings = findings, .locations = locations };
	bool done = true;

	*findings = (struct findings){ 0 };
	for (size_t i = 0; i < selection->count && done; i++)
		done = visit(&m, selection->entries[i].process, selection->entries[i].site);
	return finish(&m, done);
}

int findings_make_all(struct findings *findings, const struct profile *profile,
		      struct locations *locations)
{
	struct maker m = { .findings = findings, .locations = locations };
	bool done = true;

	*findings = (struct findings){ 0 };
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; j < p->site_count && done; j++)
			if (p->sites[j].kind == PROFILE_HEAP)
				done = visit(&m, p, &p->sites[j]);
	}
	return finish(&m, done);
}

const struct advised *findings_of(const struct findings *findings,
				  const struct profile_process *process)
{
	const struct advised *of = findings->last;

	while (of && of->process != process)
		of = of->before;
	return of;
}

struct growth findings_growth(const struct findings *findings,
			      const struct profile_process *process)
{
	const struct advised *of = findings_of(findings, process);

	return of ? of->growth : (struct growth){ 0 };
}

void findings_release(struct findings *findings)
{
	arena_release(&findings->arena);
	*findings = (struct findings){ 0 };
}
