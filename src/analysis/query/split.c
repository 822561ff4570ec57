/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups the counters of the selected sites by slot or by size.
 *
 * Site counters hold up to eight exact sizes, or classes of half an octave if there were more. For
 * classes, only the sum of their bytes is known: each class gets its minimum, plus a part of the rest
 * in proportion to its remaining capacity.
 */
#include "analysis/query/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "model/ages.h"
#include "model/estimates.h"
#include "util/cleanup.h"
#include "util/text/units.h"
#include "util/vector.h"

/* Adds one process to `groups`, by slot; a group in use has its process set. */
static void add_counters(const struct selection *s, const struct entry *e,
			 struct split_group *groups)
{
	const struct profile_process *p = e->process;
	const bool *slots = selection_slots(s, p);

	for (size_t i = 0; i < profile_counters_count(p, e->site->id); i++) {
		struct profile_counters counters = profile_counters(p, e->site->id, i);
		struct split_group *group = &groups[counters.slot];
		struct measures part = selection_measures(s, p, e->site->id, &counters.numbers);

		if ((slots && !slots[counters.slot]) ||
		    (counters.numbers.calls == 0 && counters.numbers.allocator_ns == 0))
			continue;
		group->process = p;
		group->slot = counters.slot;
		group->unknown |= !selection_knows(s, &counters.numbers);
		measures_add(&group->m, &part);
	}
}

/* Groups are named after the first thread that had the slot. */
static bool label_threads(const struct profile_process *p, struct arena *arena,
			  struct split_group *groups)
{
	size_t slots = profile_slot_count(p);
	uint32_t *threads = ARENA_ARRAY(arena, uint32_t, slots);

	if (!threads)
		return false;
	for (size_t i = 0; i < profile_thread_count(p); i++) {
		struct profile_thread t = profile_thread(p, i);

		if (threads[t.slot]++ == 0)
			groups[t.slot].label =
				arena_printf(arena, "%s (%u)", t.name[0] ? t.name : "?", t.tid);
	}
	for (size_t i = 0; i < slots; i++) {
		if (threads[i] == 0)
			groups[i].label = arena_printf(arena, "slot %zu", i);
		else if (threads[i] > 1 && groups[i].label)
			groups[i].label = arena_printf(arena, "%s and %u later in its place",
						       groups[i].label, threads[i] - 1);
		if (!groups[i].label)
			return false;
	}
	return true;
}

int split_by_thread(const struct selection *s, struct arena *arena, struct split_group **ret,
		    size_t *ret_count, struct error *error)
{
	const struct profile *profile = s->profile;
	size_t *first = ARENA_ARRAY(arena, size_t, profile->process_count + 1);
	size_t total = 0, kept = 0;

	if (s->asked.kind >= MOMENT_TIME || s->since.kind >= MOMENT_TIME)
		return error_set(error,
				 "--by thread requires the peak or the end: other moments are "
				 "kept per site, not per thread");
	for (size_t i = 0; first && i < profile->process_count; i++) {
		first[i] = total;
		total += profile_slot_count(&profile->processes[i]);
	}
	struct split_group *groups = ARENA_ARRAY(arena, struct split_group, total);

	if (!first || !groups)
		return error_set(error, "out of memory");
	for (size_t i = 0; i < s->count; i++) {
		size_t process = (size_t)(s->entries[i].process - profile->processes);

		add_counters(s, &s->entries[i], groups + first[process]);
	}
	for (size_t i = 0; i < profile->process_count; i++)
		if (!label_threads(&profile->processes[i], arena, groups + first[i]))
			return error_set(error, "out of memory");
	for (size_t i = 0; i < total; i++)
		if (groups[i].process)
			groups[kept++] = groups[i];
	*ret = groups;
	*ret_count = kept;
	return 0;
}

typedef VECTOR(struct split_group) group_vector;
__extension__ typedef unsigned __int128 unsigned_wide;

static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t result;

	return checked_mul(a, b, &result) ? result : UINT64_MAX;
}

/* The capacity of a class above its minimum; the last class is open and assumed to reach twice its lower bound. */
static uint64_t room(struct profile_bar bar)
{
	uint64_t high = bar.high == UINT64_MAX ? product(bar.low, 2) : bar.high;

	return product(high - bar.low, bar.count);
}

/* For blocks of (nearly) one size, bytes and rounding are proportional to the number of blocks. */
static void set_variances(struct split_group *g, double each)
{
	double calls = (double)g->m.calls, bytes = (double)g->m.total_bytes;
	double waste = (double)g->waste_bytes;

	if (g->m.calls <= 0)
		return;
	g->m.variance.samples = 1; /* or more: callers only test for nonzero */
	g->m.variance.calls = (float)(calls * each);
	g->m.variance.total_bytes = (float)(calls * each * (bytes / calls) * (bytes / calls));
	g->waste_calls_variance = g->waste_calls ? g->m.variance.calls : 0;
	g->waste_bytes_variance = (float)(calls * each * (waste / calls) * (waste / calls));
}

/* Adds the size bars of site counters and distributes the bytes over classes. False if out of memory. */
static bool add_sizes(group_vector *groups, const struct profile_process *p, site_id site,
		      size_t index)
{
	struct profile_counters counters = profile_counters(p, site, index);
	size_t count = profile_counters_size_count(p, site, index);
	uint64_t least = 0, rooms = 0;

	for (size_t i = 0; i < count; i++) {
		struct profile_bar bar = profile_counters_size(p, site, index, i);

		least = saturating_add(least, product(bar.low, bar.count));
		rooms = saturating_add(rooms, room(bar));
	}
	uint64_t rest = saturating_sub(counters.numbers.bytes, least);

	for (size_t i = 0; i < count; i++) {
		struct profile_bar bar = profile_counters_size(p, site, index, i);
		uint64_t own = room(bar);
		/* Proportional to the capacity of the classes still to come, so the last takes all the rest. */
		uint64_t part = rooms ? (uint64_t)((unsigned_wide)rest * own / rooms) : 0;
		uint64_t bytes = saturating_add(product(bar.low, bar.count), part);
		struct split_group group = { .low = bar.low, .high = bar.high };

		rest -= MIN(part, rest);
		rooms = saturating_sub(rooms, own);
		group.m.calls = (int64_t)MIN(bar.count, (uint64_t)INT64_MAX);
		group.m.total_bytes = (int64_t)MIN(bytes, (uint64_t)INT64_MAX);
		if (count == 1 && bar.low == bar.high) {
			group.waste_calls = bar.count;
			group.waste_bytes = counters.numbers.fragmentation_bytes;
		}
		if (counters.numbers.samples && bar.count)
			set_variances(&group, bar.variance / (double)bar.count);
		if (!vector_push(groups, group))
			return false;
	}
	return true;
}

/* The bytes of a class are estimated as those of its middle. */
static struct split_group live_group(const struct profile_live_size *size, uint64_t interval)
{
	struct split_group group = { .low = size->low, .high = size->high };
	struct profile_bar bar = { size->low, size->high, size->blocks, 0 };
	uint64_t each = size->low +
			(size->high == UINT64_MAX ? size->low / 2 : (size->high - size->low) / 2);

	group.m.live_blocks = (int64_t)MIN(size->blocks, (uint64_t)INT64_MAX);
	group.m.live_bytes = (int64_t)MIN(product(each, size->blocks), (uint64_t)INT64_MAX);
	if (interval) {
		double blocks = (double)size->blocks * estimate_size_variance(bar, interval);

		group.m.variance.samples = 1;
		group.m.variance.live_blocks = (float)blocks;
		group.m.variance.live_bytes = (float)(blocks * (double)each * (double)each);
	}
	return group;
}

static bool add_live_sizes(const struct selection *s, const struct profile_process *p,
			   const struct profile_site *const *sites, group_vector *groups)
{
	const bool *slots = selection_slots(s, p);

	for (size_t i = 0; i < profile_live_size_count(p); i++) {
		struct profile_live_size size = profile_live_size(p, i);
		const struct profile_site *site = sites[size.site.v];

		if (site && (!slots || slots[size.slot]) &&
		    !vector_push(groups, live_group(&size, site->interval)))
			return false;
	}
	return true;
}

static bool add_sizes_at(const struct profile_process *p, uint64_t at_ns, group_vector *groups)
{
	for (size_t i = 0; i < profile_size_moment_count(p); i++) {
		struct profile_size_moment size = profile_size_moment(p, i);
		struct split_group group = { .low = size.low, .high = size.high };

		group.m.live_blocks = (int64_t)MIN(size.blocks, (uint64_t)INT64_MAX);
		group.m.live_bytes = (int64_t)MIN(size.bytes, (uint64_t)INT64_MAX);
		if (saturating_add(p->started_offset_ns, size.at_ns) == at_ns &&
		    !vector_push(groups, group))
			return false;
	}
	return true;
}

static int compare_sizes(const void *left, const void *right)
{
	const struct split_group *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	return a->high < b->high ? -1 : a->high > b->high;
}

static size_t merge_sizes(struct split_group *groups, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(groups, count, sizeof *groups, compare_sizes);
	for (size_t i = 0; i < count; i++) {
		struct split_group *last = kept ? &groups[kept - 1] : NULL;

		if (!last || compare_sizes(last, &groups[i]) != 0) {
			groups[kept++] = groups[i];
			continue;
		}
		measures_add(&last->m, &groups[i].m);
		last->waste_calls = saturating_add(last->waste_calls, groups[i].waste_calls);
		last->waste_bytes = saturating_add(last->waste_bytes, groups[i].waste_bytes);
		last->waste_calls_variance += groups[i].waste_calls_variance;
		last->waste_bytes_variance += groups[i].waste_bytes_variance;
	}
	return kept;
}

/* "64 B", "48 B - 63 B", "4.0 GiB or more"; in the arena, NULL if out of memory. */
static const char *size_label(struct arena *arena, uint64_t low, uint64_t high)
{
	struct units from = units_bytes(low), to = units_bytes(high);

	if (low == high)
		return arena_strdup(arena, from.text);
	if (high == UINT64_MAX)
		return arena_printf(arena, "%s or more", from.text);
	return arena_printf(arena, "%s - %s", from.text, to.text);
}

/* Gives sizes that would have the same label exact ones. In ascending order; false if out of memory. */
static bool tell_labels_apart(struct arena *arena, struct split_group *groups, size_t count)
{
	const char *before = "";

	for (size_t i = 0; i < count; i++) {
		struct split_group *g = &groups[i];
		const char *label = g->label, *next = i + 1 < count ? groups[i + 1].label : "";

		if (g->low == g->high && (strcmp(label, before) == 0 || strcmp(label, next) == 0))
			g->label = arena_printf(arena, "%s B", units_count(g->low).text);
		if (!g->label)
			return false;
		before = label;
	}
	return true;
}

/* Merges equal sizes periodically, to bound their number. */
static bool collect_sizes(const struct selection *s, group_vector *groups)
{
	size_t merge_at = 1 << 16;

	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		const bool *slots = selection_slots(s, e->process);

		for (size_t j = 0; j < profile_counters_count(e->process, e->site->id); j++) {
			if (slots && !slots[profile_counters(e->process, e->site->id, j).slot])
				continue;
			if (!add_sizes(groups, e->process, e->site->id, j))
				return false;
		}
		if (groups->count > merge_at) {
			groups->count = merge_sizes(groups->at, groups->count);
			merge_at = MAX(merge_at, groups->count * 2);
		}
	}
	groups->count = merge_sizes(groups->at, groups->count);
	return true;
}

/* Entries are ordered by process. */
static bool collect_live_sizes(const struct selection *s, group_vector *groups)
{
	for (size_t i = 0; i < s->count;) {
		AUTO(arena_release) struct arena scratch = ARENA_INIT;
		const struct profile_process *p = s->entries[i].process;
		const struct profile_site **sites =
			ARENA_ARRAY(&scratch, const struct profile_site *, profile_site_ids(p) + 1);

		for (; sites && i < s->count && s->entries[i].process == p; i++)
			sites[s->entries[i].site->id.v] = s->entries[i].site;
		const struct resolved_moment *at = &s->at[p - s->profile->processes];

		if (!sites)
			return false;
		if (at->kind == RESOLVED_NOTHING)
			continue; /* had no blocks then */
		if (!(at->kind == RESOLVED_SNAPSHOT ? add_sizes_at(p, at->at_ns, groups)
						    : add_live_sizes(s, p, sites, groups)))
			return false;
		groups->count = merge_sizes(groups->at, groups->count);
	}
	return true;
}

int split_sizes(const struct selection *s, struct arena *arena, struct split_group **ret,
		size_t *ret_count, struct error *error)
{
	group_vector groups = { 0 };
	struct split_group *kept = NULL;

	bool live = cost_rows[s->cost].time == COST_OF_MOMENT;

	if (live ? collect_live_sizes(s, &groups) : collect_sizes(s, &groups)) {
		kept = arena_copy(arena, groups.at, groups.count * sizeof *groups.at);
		for (size_t i = 0; kept && i < groups.count; i++) {
			kept[i].label = size_label(arena, kept[i].low, kept[i].high);
			if (!kept[i].label)
				kept = NULL;
		}
		if (kept && !tell_labels_apart(arena, kept, groups.count))
			kept = NULL;
	}
	*ret_count = groups.count;
	vector_release(&groups);
	if (!kept)
		return error_set(error, "out of memory");
	*ret = kept;
	return 0;
}

int split_by_size(const struct selection *s, struct arena *arena, struct split_group **ret,
		  size_t *ret_count, struct error *error)
{
	if (s->cost != COST_CALLS && s->cost != COST_TOTAL)
		return error_set(error,
				 "of sizes only the costs calls and total are known: %s is counted "
				 "for whole sites",
				 cost_rows[s->cost].name);
	if (s->window)
		return error_set(error, "--by size requires the whole run: what was requested "
					"between two moments is kept per site, not per size");
	return split_sizes(s, arena, ret, ret_count, error);
}
