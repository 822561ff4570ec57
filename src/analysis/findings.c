/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites -> findings.
 *
 * One pass over the sites asks each rule whether a site may have it; those that may are added up by
 * rule and by the line of the program that owns them, and then the rule decides. The sites are in the
 * order of their process, so that what a rule knows of a process is made once.
 */
#include "analysis/findings.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "model/threads.h"

typedef VECTOR(struct finding) finding_vector;

struct maker {
	struct findings *findings;
	struct places *places;
	struct advised *of;  /* the process at hand */
	finding_vector open; /* of it */
	finding_vector done;
	struct arena scratch;
};

/* Functions in which a C++ container has no room left and takes a larger block. */
static bool regrows(struct place_chain stack)
{
	static const char *const names[] = { "_M_realloc_insert", "_M_realloc_append",
					     "__push_back_slow_path", "__emplace_back_slow_path" };

	for (size_t i = 0; i < stack.count; i++) {
		if (!stack.at[i]->plumbing)
			return false;
		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			if (strstr(stack.at[i]->frame.full, names[j]))
				return true;
	}
	return false;
}

/* Blocks that a slot freed beyond those it allocated came from another. */
static uint64_t freed_elsewhere(const struct profile_process *p, site_id site)
{
	uint64_t count = 0;

	for (size_t i = 0; i < profile_cell_count(p, site); i++) {
		struct profile_cell cell = profile_cell(p, site, i);

		count = saturating_add(count,
				       saturating_sub(cell.numbers.frees, cell.numbers.calls));
	}
	return count;
}

static void add_reallocs(struct realloc_numbers *sum, const struct realloc_numbers *part)
{
	sum->calls = saturating_add(sum->calls, part->calls);
	sum->moved_calls = saturating_add(sum->moved_calls, part->moved_calls);
	sum->moved_bytes = saturating_add(sum->moved_bytes, part->moved_bytes);
	sum->grown_calls = saturating_add(sum->grown_calls, part->grown_calls);
	sum->shrunk_calls = saturating_add(sum->shrunk_calls, part->shrunk_calls);
	sum->old_bytes = saturating_add(sum->old_bytes, part->old_bytes);
	sum->new_bytes = saturating_add(sum->new_bytes, part->new_bytes);
}

static void add_site(struct tally *t, const struct advised *of, const struct profile_site *site,
		     struct place_chain stack)
{
	const struct site_numbers *n = &site->numbers;
	struct trend trend = trend_of_site(&of->trends, site);

	t->sites++;
	estimates_add(&t->sums, n);
	t->calls = saturating_add(t->calls, n->calls);
	t->bytes = saturating_add(t->bytes, n->bytes);
	t->frees = saturating_add(t->frees, n->frees);
	t->temporary = saturating_add(t->temporary, n->temporary_calls);
	t->slack_bytes = saturating_add(t->slack_bytes, n->slack_bytes);
	t->live_bytes = saturating_add(t->live_bytes, n->live_bytes);
	t->live_blocks = saturating_add(t->live_blocks, n->live_blocks);
	t->peak_bytes = saturating_add(t->peak_bytes, n->peak_bytes);
	t->peak_blocks = saturating_add(t->peak_blocks, n->peak_blocks);
	t->lifetime_ms = saturating_add(t->lifetime_ms, n->lifetime_ms_sum);
	add_reallocs(&t->reallocs, &n->reallocs);
	if (regrows(stack)) {
		t->regrown_calls = saturating_add(t->regrown_calls, n->calls);
		t->regrown_bytes = saturating_add(t->regrown_bytes, n->bytes);
	}
	t->elsewhere = saturating_add(t->elsewhere, freed_elsewhere(of->process, site->id));
	if (trend.verdict == TREND_GROWING) {
		t->growing_per_second =
			saturating_add_signed(t->growing_per_second, trend.per_second);
		if (!t->confidence_per_mille ||
		    trend.confidence_per_mille < t->confidence_per_mille)
			t->confidence_per_mille = trend.confidence_per_mille;
	}
}

/* The finding of the rule at the line, or a new one; NULL if out of memory. */
static struct finding *finding_at(struct maker *m, const struct rule_row *rule,
				  const struct advised *of, const struct place *owner)
{
	for (size_t i = 0; i < m->open.count; i++)
		if (m->open.at[i].rule == rule && m->open.at[i].owner->line == owner->line &&
		    m->open.at[i].owner->function == owner->function)
			return &m->open.at[i];
	const struct finding added = {
		.rule = rule, .process = of->process, .owner = owner, .of = of
	};

	return vector_push(&m->open, added) ? &m->open.at[m->open.count - 1] : NULL;
}

static bool take_site(struct maker *m, const struct advised *of, const struct rule_row *rule,
		      const struct profile_site *site)
{
	struct place_chain stack;

	if (places_stack(m->places, of->process, site->node, &m->scratch, &stack) < 0)
		return false;
	const struct place *owner = places_owner(stack);

	if (!owner)
		return true;
	struct finding *f = finding_at(m, rule, of, owner);

	if (!f)
		return false;
	struct tally_site *member = ARENA_NEW(&m->scratch, struct tally_site);

	if (!member)
		return false;
	*member = (struct tally_site){ f->tally.members, site->id };
	f->tally.members = member;
	if (!f->site || site->numbers.bytes > f->site->numbers.bytes)
		f->site = site;
	add_site(&f->tally, of, site, stack);
	return true;
}

/* The most that the snapshots hold beside the tally's sites. */
static bool look_back(struct maker *m, struct finding *f)
{
	const struct profile_process *p = f->process;
	size_t sites = profile_site_ids(p);
	bool *members = ARENA_ARRAY(&m->scratch, bool, sites);
	int64_t *values = ARENA_ARRAY(&m->scratch, int64_t, sites);
	double sum = 0;

	if (!members || !values)
		return false;
	for (const struct tally_site *s = f->tally.members; s; s = s->next)
		members[s->id.v] = true;
	for (size_t i = 0; i < profile_snapshot_count(p); i++) {
		struct profile_snapshot snapshot = profile_snapshot(p, i);

		for (size_t j = 0; j < snapshot.change_count; j++) {
			struct profile_change change = profile_change(p, i, j);

			if (!members[change.site.v])
				continue;
			sum += (double)change.live.bytes - (double)values[change.site.v];
			values[change.site.v] = change.live.bytes;
		}
		uint64_t rest = saturating_sub(snapshot.live_bytes, saturating_u64(sum));

		f->tally.most_without = MAX(f->tally.most_without, rest);
	}
	return true;
}

/* The process is through: what holds is kept. */
static bool close_process(struct maker *m)
{
	for (size_t i = 0; i < m->open.count; i++) {
		struct finding *f = &m->open.at[i];

		if (f->rule->looks_back && !look_back(m, f))
			return false;
		f->tally.members = NULL; /* they go with the process */
		if (f->rule->holds(f->of, &f->tally, &f->saving) && !vector_push(&m->done, *f))
			return false;
	}
	m->open.count = 0;
	arena_release(&m->scratch);
	return true;
}

/* Sites come process by process. */
static bool visit(struct maker *m, const struct profile_process *process,
		  const struct profile_site *site)
{
	if (!m->of || m->of->process != process) {
		struct advised *of = ARENA_NEW(&m->findings->arena, struct advised);

		if (!of || !close_process(m) ||
		    trends_make(process, &m->findings->arena, &of->trends) < 0)
			return false;
		of->process = process;
		of->before = m->findings->last;
		m->findings->last = m->of = of;
	}
	struct trend trend = trend_of_site(&m->of->trends, site);

	if (trend.verdict == TREND_GROWING)
		m->of->growing_per_second =
			saturating_add_signed(m->of->growing_per_second, trend.per_second);
	for (size_t i = 0; i < rule_count; i++)
		if (rule_rows[i].may(m->of, site) && !take_site(m, m->of, &rule_rows[i], site))
			return false;
	return true;
}

static int compare_findings(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;

	if (a->saving.share != b->saving.share)
		return a->saving.share < b->saving.share ? 1 : -1;
	if (a->rule != b->rule)
		return a->rule < b->rule ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->site->id.v < b->site->id.v ? -1 : 1;
}

/* What is left to do once all were visited, or one could not be. */
static int finish(struct maker *m, bool visited)
{
	struct findings *findings = m->findings;
	int status = -1;

	if (visited && close_process(m)) {
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
		  struct places *places)
{
	struct maker m = { .findings = findings, .places = places };
	bool done = true;

	*findings = (struct findings){ 0 };
	for (size_t i = 0; i < selection->count && done; i++)
		done = visit(&m, selection->entries[i].process, selection->entries[i].site);
	return finish(&m, done);
}

int findings_make_all(struct findings *findings, const struct profile *profile,
		      struct places *places)
{
	struct maker m = { .findings = findings, .places = places };
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

uint64_t advised_growth(const struct advised *of)
{
	const struct trend *heap = &of->trends.heap;
	double seconds = (double)of->process->duration_ns / 1e9;

	if (heap->verdict == TREND_GROWING)
		return (uint64_t)heap->per_second;
	/* What comes and goes beside it may hide a site that only grows. */
	double grown = (double)of->growing_per_second * seconds;

	return grown >= 4096 && grown >= (double)of->process->live_bytes / 100
		       ? (uint64_t)of->growing_per_second
		       : 0;
}

void findings_release(struct findings *findings)
{
	arena_release(&findings->arena);
	*findings = (struct findings){ 0 };
}
