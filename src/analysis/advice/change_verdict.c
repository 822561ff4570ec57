/* SPDX-License-Identifier: Apache-2.0 */
/* See change_verdict.h. Pure; any thread. */
#include "analysis/advice/change_verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/text/units.h"

enum { SITES_MAX = 256 }; /* stacks with the largest changes */

#define SAME 0.02 /* a smaller change of a mean is none */

struct changed_site {
	const struct entry *entry;
	const char *label; /* of its owner */
	int64_t change;
};

static int compare_changes(const void *left, const void *right)
{
	const struct changed_site *a = left, *b = right;
	uint64_t x = magnitude(a->change), y = magnitude(b->change);

	if (x != y)
		return x < y ? 1 : -1;
	return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static int compare_pointers(const void *left, const void *right)
{
	const struct profile_site *const *a = left, *const *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* The stacks that changed, largest first. Returns how many. */
static size_t changed_sites(const struct selection *s, struct changed_site *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < s->count; i++) {
		int64_t change = selection_cost(s, &s->entries[i].m);

		if (change != 0)
			ret[count++] =
				(struct changed_site){ .entry = &s->entries[i], .change = change };
	}
	if (count)
		qsort(ret, count, sizeof *ret, compare_changes);
	return MIN(count, (size_t)SITES_MAX);
}

static int64_t sum_of_owner(const struct changed_site *sites, size_t count, const char *label)
{
	int64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (strcmp(sites[i].label, label) == 0)
			sum = saturating_add_signed(sum, sites[i].change);
	return sum;
}

static void choose_owner(struct changed_owner *o, const struct changed_site *sites, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int64_t sum = sum_of_owner(sites, count, sites[i].label);

		if ((sum > 0) == (o->whole.change > 0) && magnitude(sum) > magnitude(o->change)) {
			o->change = sum;
			o->label = sites[i].label;
		}
	}
	for (size_t i = 0; o->label && i < count; i++)
		if (strcmp(sites[i].label, o->label) == 0)
			o->sites[o->site_count++] = sites[i].entry->site;
	if (o->site_count)
		qsort(o->sites, o->site_count, sizeof(const struct profile_site *),
		      compare_pointers);
}

static double mean_of(const int64_t *runs, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)runs[i];
	return count ? sum / (double)count : 0;
}

static void add_runs(const struct changed_owner *o, const struct selection *s, double to[2])
{
	size_t before = s->against->before_count, after = s->against->after_count;

	for (size_t i = 0; i < s->count && o->site_count; i++) {
		const struct entry *e = &s->entries[i];

		if (!bsearch(&e->site, o->sites, o->site_count, sizeof *o->sites, compare_pointers))
			continue;
		to[BEFORE_RUNS] += mean_of(e->runs, before);
		to[AFTER_RUNS] += mean_of(e->runs + before, after);
	}
}

int changed_owner_find(struct changed_owner *o, struct result *result, struct locations *locations,
		       const struct selection *s)
{
	AUTO_FREE struct changed_site *sites = calloc(s->count + 1, sizeof *sites);

	*o = (struct changed_owner){ .whole = comparison_whole(s), .cost = s->cost };
	o->sites = ARENA_ARRAY(&result->arena, const struct profile_site *, SITES_MAX);
	if (!sites || !o->sites)
		return -1;
	if (o->whole.change == 0 || o->whole.within_spread || o->whole.within_noise)
		return 0;
	size_t count = changed_sites(s, sites);

	for (size_t i = 0; i < count; i++) {
		const struct entry *e = sites[i].entry;

		sites[i].label =
			location_label(result, stack_owner(locations, e->process, e->site->node));
		if (!sites[i].label)
			return -1;
	}
	choose_owner(o, sites, count);
	add_runs(o, s, o->bytes);
	return 0;
}

void changed_owner_add_blocks(struct changed_owner *o, const struct selection *s)
{
	add_runs(o, s, o->blocks);
}

static const char *size_text(struct arena *arena, double before, double after)
{
	double ratio = after / before;

	return fabs(ratio - 1) < SAME
		       ? "of the same size"
		       : arena_printf(arena, "%.*f times their size", ratio < 0.1 ? 3 : 1, ratio);
}

const char *changed_owner_how(const struct changed_owner *o, struct arena *arena)
{
	uint64_t before = saturating_u64(round(o->blocks[BEFORE_RUNS]));
	uint64_t after = saturating_u64(round(o->blocks[AFTER_RUNS]));

	if (o->whole.change_error > 0)
		return "";
	if (before == 0 || after == 0)
		return before == after
			       ? ""
			       : arena_printf(arena, "%s blocks instead of %s",
					      units_count(after).text, units_count(before).text);
	const char *size = size_text(arena, o->bytes[BEFORE_RUNS] / o->blocks[BEFORE_RUNS],
				     o->bytes[AFTER_RUNS] / o->blocks[AFTER_RUNS]);

	if (!size)
		return NULL;
	return before == after
		       ? arena_printf(arena, "the same number of blocks, %s", size)
		       : arena_printf(arena, "%s blocks instead of %s, %s", units_count(after).text,
				      units_count(before).text, size);
}

void words_changed(struct words *w, struct arena *arena, const char *what,
		   const struct changed_owner *o)
{
	const struct compared *c = &o->whole;

	words_text(w, what);
	if (c->change == 0) {
		words_text(w, " unchanged.");
		return;
	}
	text_format(w, " {}",
		    value_estimate(value_change(cost_unit(o->cost, true), c->change),
				   c->change_error * c->change_error));
	if (c->within_spread)
		words_text(w, ", within the spread of the runs");
	else if (c->within_noise)
		words_text(w, ", within the noise of sampling");
	else if (o->label) {
		/* Others may have changed the other way. */
		uint64_t part = MIN(magnitude(o->change), magnitude(c->change));

		text_format(w, ", {} of it in {}", value_percent(part, magnitude(c->change)),
			    value_text(o->label));
		const char *how = changed_owner_how(o, arena);

		w->failed |= !how;
		if (how && how[0])
			words_text(w, arena_printf(arena, ": %s", how));
	}
	words_text(w, ".");
}

bool changed_alike(const struct changed_owner *a, const struct changed_owner *b)
{
	return a->whole.change == b->whole.change && a->change == b->change &&
	       a->whole.within_spread == b->whole.within_spread &&
	       a->whole.within_noise == b->whole.within_noise &&
	       (a->label == b->label || (a->label && b->label && strcmp(a->label, b->label) == 0));
}
