/* SPDX-License-Identifier: Apache-2.0 */
/* See change_verdict.h. Pure; any thread. */
#include "analysis/advice/change_verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

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

/* The stacks that changed in the direction of the whole, largest first. Returns how many. */
static size_t changed_sites(const struct selection *s, int64_t whole, struct changed_site *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < s->count; i++) {
		int64_t change = selection_cost(s, &s->entries[i].m);

		if (change != 0 && (change > 0) == (whole > 0))
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

		if (magnitude(sum) > magnitude(o->change)) {
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
	size_t count = changed_sites(s, o->whole.change, sites);

	for (size_t i = 0; i < count; i++) {
		const struct entry *e = sites[i].entry;

		sites[i].label =
			location_label(result, stack_owner(locations, e->process, e->site->node));
		if (!sites[i].label)
			return -1;
	}
	choose_owner(o, sites, count);
	return 0;
}

static double mean_of(const int64_t *runs, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)runs[i];
	return count ? sum / (double)count : 0;
}

void changed_owner_add(struct changed_owner *o, const struct selection *s)
{
	double *to = s->cost == COST_CALLS ? o->calls : o->bytes;
	size_t before = s->against->before_count, after = s->against->after_count;

	for (size_t i = 0; i < s->count && o->site_count; i++) {
		const struct entry *e = &s->entries[i];

		if (!bsearch(&e->site, o->sites, o->site_count, sizeof *o->sites, compare_pointers))
			continue;
		to[BEFORE_RUNS] += mean_of(e->runs, before);
		to[AFTER_RUNS] += mean_of(e->runs + before, after);
	}
}

/* "2.0 times as often", "12 % less", "as much". NULL: out of memory. */
static const char *ratio_text(struct arena *arena, double before, double after, const char *as_much,
			      const char *more, const char *less)
{
	double ratio = after / before;

	if (fabs(ratio - 1) < SAME)
		return arena_printf(arena, "as %s", as_much);
	if (ratio >= 1.5)
		return arena_printf(arena, "%.1f times as %s", ratio, as_much);
	return arena_printf(arena, "%.0f %% %s", fabs(ratio - 1) * 100, ratio > 1 ? more : less);
}

const char *changed_owner_how(const struct changed_owner *o, struct arena *arena)
{
	if (o->calls[BEFORE_RUNS] <= 0 && o->calls[AFTER_RUNS] <= 0)
		return "";
	if (o->calls[BEFORE_RUNS] <= 0)
		return "which is new";
	if (o->calls[AFTER_RUNS] <= 0)
		return "which no longer allocates";
	const char *often = ratio_text(arena, o->calls[BEFORE_RUNS], o->calls[AFTER_RUNS], "often",
				       "more often", "less often");
	const char *much =
		ratio_text(arena, o->bytes[BEFORE_RUNS] / o->calls[BEFORE_RUNS],
			   o->bytes[AFTER_RUNS] / o->calls[AFTER_RUNS], "much", "more", "less");

	if (!often || !much)
		return NULL;
	return arena_printf(arena, "called %s, asks for %s each time", often, much);
}

static void words_how(struct words *w, struct arena *arena, const struct changed_owner *o)
{
	const char *how = changed_owner_how(o, arena);

	w->failed |= !how;
	if (how && how[0]) {
		words_text(w, strncmp(how, "which", strlen("which")) == 0 ? ", " : ": ");
		words_text(w, how);
	}
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
		words_how(w, arena, o);
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
