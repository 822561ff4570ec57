/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites with their cost, their current allocation rate and their current growth. Site ids of a running process are never reused, so
 * that two readings match by id; a site that is new had nothing before. But if stacks were evicted in between, all ids change, and
 * there are no rates until the next reading.
 *
 * A reading owns its counters and does not refer to its profile. Otherwise pure.
 */
#include "tui/rates.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "base/checked.h"

struct counted {
	uint32_t site;
	uint64_t calls, live_bytes;
	double calls_variance, live_bytes_variance;
};

struct reading {
	uint64_t at_ns; /* since the start of the process */
	size_t count;
	struct counted sites[]; /* sorted by id */
};

struct reading *reading_keep(const struct profile *profile)
{
	const struct profile_process *process = &profile->processes[0];
	struct reading *reading =
		malloc(sizeof *reading + process->site_count * sizeof *reading->sites);

	if (!reading)
		return NULL;
	reading->at_ns = process->duration_ns;
	reading->count = process->site_count;
	for (size_t i = 0; i < process->site_count; i++) {
		const struct profile_site *site = &process->sites[i];

		reading->sites[i] =
			(struct counted){ site->id.v, site->numbers.calls, site->numbers.live_bytes,
					  site->numbers.calls_variance,
					  site->numbers.live_bytes_variance };
	}
	return reading;
}

void reading_free(struct reading *reading)
{
	free(reading);
}

int64_t rate_of(int64_t difference, uint64_t elapsed_ns)
{
	double rate = elapsed_ns ? (double)difference * 1e9 / (double)elapsed_ns : 0;

	if (rate >= 9e18 || rate <= -9e18)
		return rate > 0 ? INT64_MAX : -INT64_MAX;
	return (int64_t)(rate + (rate < 0 ? -0.5 : 0.5));
}

static int compare_sites(const void *left, const void *right)
{
	const struct counted *a = left, *b = right;

	return a->site < b->site ? -1 : a->site > b->site;
}

/* The current activity of a site. */
struct now {
	size_t entry; /* index in the selection */
	int64_t calls, growth, weight;
	double calls_error, growth_error;
};

static double rate_error(double variance, uint64_t elapsed_ns)
{
	return elapsed_ns ? sqrt(fabs(variance)) * 1e9 / (double)elapsed_ns : 0;
}

static void fill_now(struct now *now, const struct entry *entry, const struct reading *before,
		     uint64_t elapsed_ns)
{
	static const struct counted nothing = { 0 };
	const struct counted key = { .site = entry->site->id.v }, *found = NULL;
	const struct site_numbers *numbers = &entry->site->numbers;

	if (!before)
		return;
	if (before->count)
		found = bsearch(&key, before->sites, before->count, sizeof key, compare_sites);
	if (!found)
		found = &nothing;
	now->calls = rate_of((int64_t)saturating_sub(numbers->calls, found->calls), elapsed_ns);
	now->growth = rate_of((int64_t)(numbers->live_bytes - found->live_bytes), elapsed_ns);
	/* Blocks may be live in both readings: this is an upper bound. */
	now->calls_error = rate_error(numbers->calls_variance - found->calls_variance, elapsed_ns);
	now->growth_error = rate_error(
		fabs(numbers->live_bytes_variance) + fabs(found->live_bytes_variance), elapsed_ns);
}

static int compare_weights(const void *left, const void *right)
{
	const struct now *a = left, *b = right;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static struct now *sort_now(struct selection *s, const struct reading *before,
			    enum rates_order order)
{
	uint64_t elapsed_ns =
		before ? saturating_sub(s->profile->processes[0].duration_ns, before->at_ns) : 0;
	struct now *list = ARENA_ARRAY(&s->arena, struct now, s->count);

	for (size_t i = 0; list && i < s->count; i++) {
		struct now *now = &list[i];

		now->entry = i;
		fill_now(now, &s->entries[i], before, elapsed_ns);
		now->weight = order == RATES_BY_CALLS	 ? now->calls
			      : order == RATES_BY_GROWTH ? now->growth
							 : selection_cost(s, &s->entries[i].m);
	}
	if (list && s->count)
		qsort(list, s->count, sizeof *list, compare_weights);
	return list;
}

/* The owner of the stack and its callers, because many sites have the same owner. NULL if out of memory. */
static const char *path_label(struct result *result, struct locations *locations,
			      const struct entry *e)
{
	enum { CALLERS = 3 };
	struct location_chain stack;
	size_t at = 0, callers = 0;

	if (locations_stack(locations, e->process, e->site->node, &result->arena, &stack) < 0)
		return NULL;
	const struct location *owner = locations_owner(stack);
	const char *text = location_label(result, owner);

	while (at < stack.count && stack.at[at] != owner)
		at++;
	for (at++; text && at < stack.count && callers < CALLERS; at++)
		if (!stack.at[at]->runtime_frame) {
			text = arena_printf(&result->arena, "%s < %s", text,
					    stack.at[at]->frame.function);
			callers++;
		}
	return text;
}

enum column { COST, SHARE, BLOCKS, CALLS, GROWTH, SITE, COLUMNS };

struct sites {
	struct result *result;
	struct locations *locations;
	struct selection selection;
	const struct now *list;
};

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct sites *of = context;
	const struct selection *s = &of->selection;
	const struct now *now = &of->list[index];
	const struct entry *e = &s->entries[now->entry];
	int64_t whole = selection_cost(s, &s->sum), part = selection_cost(s, &e->m);

	row[COST] = selection_value(s, &e->m);
	row[SHARE] =
		value_percent((uint64_t)MAX(part, (int64_t)0), (uint64_t)MAX(whole, (int64_t)0));
	row[BLOCKS] = value_part(UNIT_COUNT, e->site->numbers.live_blocks, VARIANCE_LIVE_BLOCKS,
				 &e->site->numbers);
	row[CALLS] = value_number(UNIT_RATE, (uint64_t)now->calls);
	row[CALLS].error = (float)now->calls_error;
	row[GROWTH] = value_change(UNIT_BYTES_RATE, now->growth);
	row[GROWTH].error = (float)now->growth_error;
	row[SITE] = value_text(path_label(of->result, of->locations, e));
	return row[SITE].text;
}

static bool fill_table(struct sites *of, size_t limit)
{
	const struct selection *s = &of->selection;
	struct result *result = of->result;
	const struct result_column columns[COLUMNS] = {
		[COST] = { cost_rows[s->cost].key, title_of(result, s->title),
			   selection_unit(s, s->cost) },
		[SHARE] = { NULL, title_of(result, s->share_title), UNIT_PERCENT },
		[BLOCKS] = { "live_blocks", s->cost == COST_BLOCKS ? NULL : "BLOCKS", UNIT_COUNT },
		[CALLS] = { "calls_now", "CALLS", UNIT_RATE },
		[GROWTH] = { "growth_now", "GROWTH", UNIT_BYTES_RATE },
		[SITE] = { "site", "SITE", UNIT_TEXT },
	};
	return result_fill(result, "sites", columns, COLUMNS, MIN(s->count, limit), fill_row, of);
}

struct result *rates_sites(const struct profile *profile, struct locations *locations,
			   const struct query *query, const struct reading *before,
			   enum rates_order order, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE,
						.at = MOMENT_END,
						.kinds = KINDS_HEAP };
	struct sites of = { .locations = locations };

	if (selection_make(&of.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	of.result = calloc(1, sizeof *of.result);
	of.list = of.result ? sort_now(&of.selection, before, order) : NULL;
	bool done = of.list && fill_table(&of, query->limit) &&
		    selection_notes(of.result, profile, locations, &of.selection);

	selection_release(&of.selection);
	return result_end(of.result, done, error);
}
