/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `processes`: the process tree, with the numbers of each process.
 *
 * The parent is the process that had the parent's pid when the child started. A program that called
 * exec is the parent of the new program: the process is the same, but its memory is not. If there are
 * more processes than the limit allows, the heaviest are shown, each with its ancestors.
 */
#include <stdlib.h>

#include "analysis/result/process_rows.h"
#include "analysis/query/selection.h"
#include "base/compiler.h"
#include "util/search.h"

enum { NONE = UINT32_MAX };

struct family {
	const struct profile *profile;
	struct arena arena;
	const bool *wanted;
	size_t wanted_count;
	uint32_t *by_pid; /* indices, sorted by pid and start */
	uint32_t *parent; /* by index; always smaller */
	uint32_t *first;  /* by index: its first child */
	uint32_t *next;	  /* by index: its next sibling */
	uint32_t root;	  /* the first process without a parent */
	uint64_t *weight; /* by index: the highest peak in its subtree */
	bool *shown;
};

static int compare_pids(const void *left, const void *right, void *context)
{
	const struct profile_process *all = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (all[a].pid != all[b].pid)
		return all[a].pid < all[b].pid ? -1 : 1;
	return a < b ? -1 : a > b; /* processes are ordered by start */
}

/* The last process with that pid before the index. */
static uint32_t find_before(const struct family *f, uint32_t pid, uint32_t index)
{
	const struct profile_process *all = f->profile->processes;
	size_t low = FIRST_WHERE(i, f->profile->process_count,
				 all[f->by_pid[i]].pid > pid ||
					 (all[f->by_pid[i]].pid == pid && f->by_pid[i] >= index));

	return low > 0 && all[f->by_pid[low - 1]].pid == pid ? f->by_pid[low - 1] : NONE;
}

static uint32_t find_parent(const struct family *f, uint32_t index)
{
	const struct profile_process *p = &f->profile->processes[index];
	uint32_t before = find_before(f, p->pid, index);

	if (before != NONE && f->profile->processes[before].end == PROFILE_BECAME)
		return before;
	return find_before(f, p->ppid, index);
}

/* Runs backwards, so that children are linked in order of their start. */
static void link_all(struct family *f)
{
	const struct profile_process *all = f->profile->processes;

	f->root = NONE;
	for (uint32_t i = (uint32_t)f->profile->process_count; i-- > 0;) {
		f->parent[i] = find_parent(f, i);
		uint32_t *first = f->parent[i] == NONE ? &f->root : &f->first[f->parent[i]];

		f->next[i] = *first;
		*first = i;
		f->weight[i] = MAX(f->weight[i], all[i].peak_bytes);
		if (f->parent[i] != NONE)
			f->weight[f->parent[i]] = MAX(f->weight[f->parent[i]], f->weight[i]);
	}
}

static int compare_weights(const void *left, const void *right, void *context)
{
	const uint64_t *weight = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (weight[a] != weight[b])
		return weight[a] < weight[b] ? 1 : -1;
	return a < b ? -1 : a > b; /* parents first */
}

static bool family_make(struct family *f, size_t limit)
{
	uint32_t count = (uint32_t)f->profile->process_count;

	f->by_pid = ARENA_ARRAY(&f->arena, uint32_t, count);
	f->parent = ARENA_ARRAY(&f->arena, uint32_t, count);
	f->first = ARENA_ARRAY(&f->arena, uint32_t, count);
	f->next = ARENA_ARRAY(&f->arena, uint32_t, count);
	f->weight = ARENA_ARRAY(&f->arena, uint64_t, count);
	f->shown = ARENA_ARRAY(&f->arena, bool, count);
	if (!f->by_pid || !f->parent || !f->first || !f->next || !f->weight || !f->shown)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		f->by_pid[i] = i;
		f->first[i] = NONE;
		f->wanted_count += f->wanted[i];
	}
	if (count)
		qsort_r(f->by_pid, count, sizeof *f->by_pid, compare_pids,
			(void *)f->profile->processes);
	link_all(f);
	if (count)
		qsort_r(f->by_pid, count, sizeof *f->by_pid, compare_weights, f->weight);
	for (uint32_t i = 0; i < count && limit > 0; i++)
		if (f->wanted[f->by_pid[i]]) {
			f->shown[f->by_pid[i]] = true;
			limit--;
		}
	return true;
}

/* The next node in preorder. */
static uint32_t step(const struct family *f, uint32_t at)
{
	if (f->first[at] != NONE)
		return f->first[at];
	while (at != NONE && f->next[at] == NONE)
		at = f->parent[at];
	return at == NONE ? NONE : f->next[at];
}

static uint64_t depth_of(const struct family *f, uint32_t at)
{
	uint64_t depth = 0;

	for (uint32_t up = f->parent[at]; up != NONE; up = f->parent[up])
		depth += f->shown[up];
	return depth;
}

enum { TREE_COLUMNS = 1 + PROCESS_COLUMNS };

static bool fill_table(struct result *result, const struct family *f, size_t limit)
{
	size_t rows = MIN(f->wanted_count, limit), at = 0;
	struct result_column *columns =
		ARENA_ARRAY(&result->arena, struct result_column, TREE_COLUMNS);
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, rows * TREE_COLUMNS);

	if (!columns || !values)
		return false;
	columns[0] = (struct result_column){ "depth", NULL, UNIT_COUNT };
	for (size_t i = 0; i < PROCESS_COLUMNS; i++)
		columns[1 + i] = process_columns[i].column;
	for (uint32_t i = f->root; i != NONE; i = step(f, i)) {
		if (!f->shown[i])
			continue;
		ASSERT(at < rows);
		values[at * TREE_COLUMNS] = value_count(depth_of(f, i));
		if (!process_row(result, &f->profile->processes[i], &values[at * TREE_COLUMNS + 1]))
			return false;
		at++;
	}
	result->table = (struct result_table){ .name = "processes",
					       .shape = RESULT_TREE,
					       .columns = columns,
					       .column_count = TREE_COLUMNS,
					       .values = values,
					       .row_count = at };
	return result_left_out(result, f->wanted_count - at, " more process", " more processes");
}

static bool describe_all(struct result *result, const struct family *f)
{
	struct sentences s = { .result = result };
	struct words w = { 0 };

	words_text(&w, command_short(&result->arena, f->profile->command));
	words_text(&w, "  ");
	words_count(&w, f->profile->process_count, " process", " processes");
	text_format(&w, ", peak together {} at {} of {}",
		    value_estimate(value_bytes(f->profile->peak_bytes),
				   profile_peak_variance(f->profile)),
		    value_ns(f->profile->peak_at_ns), value_ns(f->profile->duration_ns));
	sentences_add(&s, NULL, &w, NULL);
	return sentences_end(&s);
}

struct result *analyse_processes(const struct profile *profile, struct locations *locations,
				 const struct query *query, struct error *error)
{
	struct family f = { .profile = profile };
	struct result *result = NULL;

	(void)locations;
	f.wanted = processes_choose(profile, query, &f.arena, error);
	if (!f.wanted)
		goto fail;
	error_set(error, "out of memory");
	result = result_begin("processes", profile, query, 0);
	if (result)
		result->shows_peak = true;
	if (!result || !family_make(&f, query->limit) || !fill_table(result, &f, query->limit) ||
	    !describe_all(result, &f) || !result_notes(result, profile, NULL, NULL))
		goto fail;
	arena_release(&f.arena);
	return result;
fail:
	arena_release(&f.arena);
	result_free(result);
	return NULL;
}
