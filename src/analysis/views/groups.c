/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows by an axis: the views `functions` and `types`, and any axis of --by.
 *
 * `self` is memory allocated directly by a function, `total` also by anything it calls; a function
 * that is on a stack twice counts once. The `self` values add up to the whole. Blocks and calls are
 * of `total`, like the cost; values of `self` have it in their name. Axes that are not part of a
 * stack (thread, size, type, process and so on) have a single number.
 */
#include "analysis/views/groups.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/query/stack_tree.h"
#include "analysis/query/split.h"
#include "analysis/result/owners.h"
#include "analysis/result/types.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/entries.h"
#include "model/frames/sources.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"

struct group {
	struct stack_amount self, total;
	const struct location *location; /* for axes of frames */
	const char *label;		 /* for other axes */
	const struct profile_process *process;
	bool many_lines;
	bool unknown; /* threads: the cost was not measured per thread */
};

struct grouping {
	struct result *result;
	const struct profile *profile;
	struct locations *locations;
	const struct query *query;
	struct selection selection;
	enum axis_id by;
	VECTOR(struct group) groups;
	struct owners owners;
};

static struct group *group_at(struct grouping *g, uint32_t key)
{
	static const struct group none = { 0 };

	while (g->groups.count <= key)
		if (!vector_push(&g->groups, none))
			return NULL;
	return &g->groups.at[key];
}

/* The state of a walk over the stacks of a process. A location that is on a stack twice counts once, so `total` is added where
 * a key first occurs on the path. */
struct walk {
	const struct stack_tree *tree;
	VECTOR(uint32_t) on_path; /* by key: occurrences on the path */
	VECTOR(uint32_t) path;	  /* the keys of each stack on the path, followed by their number */
};

static bool enter_key(struct walk *w, uint32_t key)
{
	while (w->on_path.count <= key)
		if (!vector_push(&w->on_path, 0))
			return false;
	w->on_path.at[key]++;
	return vector_push(&w->path, key);
}

static bool enter(struct grouping *g, struct walk *w, uint32_t at)
{
	struct location_chain chain = locations_of(g->locations, w->tree->process, (node_id){ at });

	for (size_t i = chain.count; i > 0; i--) {
		const struct location *location = chain.at[i - 1];
		uint32_t key = location_key(location, g->by);
		struct group *group = group_at(g, key);

		if (!group || !enter_key(w, key))
			return false;
		if (!group->location)
			group->location = location;
		group->many_lines |= group->location->line != location->line;
		if (w->on_path.at[key] == 1)
			stack_amount_add(&group->total, &w->tree->through[at]);
	}
	return chain.at && vector_push(&w->path, (uint32_t)chain.count);
}

static void leave(struct walk *w)
{
	for (uint32_t count = w->path.at[--w->path.count]; count > 0; count--)
		w->on_path.at[w->path.at[--w->path.count]]--;
}

/* Depth first, without recursion: leaves a stack after its last child. */
static bool walk_all(struct grouping *g, struct walk *w)
{
	const struct stack_tree *t = w->tree;
	uint32_t at = 0;

	for (;;) {
		if (t->first_child[at]) {
			at = t->first_child[at];
		} else {
			for (; at && !t->next_sibling[at];
			     at = profile_parent(t->process, (node_id){ at }).v)
				leave(w);
			if (at == 0)
				return true;
			leave(w);
			at = t->next_sibling[at];
		}
		if (!enter(g, w, at))
			return false;
	}
}

/* Every stack counts, even if its cost is 0: it may have calls. */
static struct stack_amount amount_of(const struct selection *s, const struct entry *e)
{
	struct stack_amount a = stack_amount_of_measures(s, &e->m);

	a.weight = 1;
	return a;
}

static bool add_own(struct grouping *g, const struct entry *e)
{
	const struct stack_amount a = amount_of(&g->selection, e);
	struct location_chain chain = locations_of(g->locations, e->process, e->site->node);
	struct group *group = chain.at ? group_at(g, location_key(chain.at[0], g->by)) : NULL;

	if (group)
		stack_amount_add(&group->self, &a);
	return group;
}

/* For an axis that is not part of a stack, self equals total. */
static void add_whole(const struct grouping *g, struct group *group, const struct entry *e)
{
	const struct stack_amount a = amount_of(&g->selection, e);

	stack_amount_add(&group->self, &a);
	stack_amount_add(&group->total, &a);
}

static bool add_stacks(struct grouping *g)
{
	const struct selection *s = &g->selection;
	AUTO(stack_trees_release) struct stack_trees trees = { 0 };
	bool done = stack_trees_build(&trees, s, amount_of, true);
	size_t entry = 0;

	for (size_t i = 0; i < trees.of.count && done; i++) {
		struct walk w = { .tree = &trees.of.at[i] };

		for (; entry < s->count && s->entries[entry].process == w.tree->process; entry++)
			if (s->entries[entry].site->node.v)
				done = done && add_own(g, &s->entries[entry]);
		done = done && walk_all(g, &w);
		vector_release(&w.on_path);
		vector_release(&w.path);
	}
	return done;
}

static bool add_process(struct grouping *g, const struct entry *e)
{
	struct group *group = group_at(g, (uint32_t)(e->process - g->profile->processes));

	if (!group)
		return false;
	group->process = e->process;
	add_whole(g, group, e);
	return true;
}

static bool add_types(struct grouping *g)
{
	const struct selection *s = &g->selection;
	struct types *types = types_new(g->locations);
	bool done = types != NULL;

	for (size_t i = 0; i < s->count && done; i++) {
		const struct entry *e = &s->entries[i];
		uint32_t number;
		struct group *group = NULL;

		if (types_of_stack(types, e->process, e->site->node, &number) == 0)
			group = group_at(g, number);
		done = group != NULL;
		if (!done)
			break;
		if (!group->label)
			group->label = arena_strdup(&g->result->arena, types_name(types, number));
		done = group->label != NULL;
		add_whole(g, group, e);
	}
	types_free(types);
	return done;
}

/* The label of the owner, or the language of the allocating function; NULL if out of memory. */
static const char *words_of_stack(struct grouping *g, const struct entry *e)
{
	struct owner_search found;

	if (g->by == AXIS_OWN)
		return owners_label(&g->owners, e->process, e->site->node, g->result);
	if (!owners_find(&g->owners, e->process, e->site->node, &found))
		return NULL;
	const struct location *caller = owner_informative(&found);

	return caller && caller->frame.language ? caller->frame.language : "";
}

/* The entry's name on a text axis; "": none. */
static const char *entry_words(struct grouping *g, const struct entry *e, struct arena *arena)
{
	switch (g->by) {
	case AXIS_OWN:
	case AXIS_LANGUAGE:
		return words_of_stack(g, e);
	case AXIS_ENTRY:
		return profile_entry_name(e->site);
	case AXIS_POOL:
		return profile_tag_pool(e->process, e->site->tag);
	case AXIS_LABEL:
		return profile_tag_labels(e->process, e->site->tag, arena);
	default:
		return profile_tag_path(e->process, e->site->tag, arena);
	}
}

/* Groups by tag path, pool, labels or language, across processes. */
static bool add_words(struct grouping *g)
{
	const char *none = g->by == AXIS_POOL				   ? "(no pool)"
			   : g->by == AXIS_LABEL			   ? "(no label)"
			   : g->by == AXIS_LANGUAGE || g->by == AXIS_ENTRY ? "(not known)"
									   : "(no tag)";
	const struct selection *s = &g->selection;
	AUTO(intern_release) struct intern paths = INTERN_INIT;
	bool done = true;

	for (size_t i = 0; i < s->count && done; i++) {
		const struct entry *e = &s->entries[i];
		AUTO(arena_release) struct arena scratch = ARENA_INIT;
		const char *path = entry_words(g, e, &scratch);
		struct intern_entry *known =
			path ? intern_entry(&paths, span_of(path, strlen(path))) : NULL;
		struct group *group;

		if (!known)
			return false;
		if (!known->value)
			known->value = (void *)(uintptr_t)paths.used; /* counted from 1 */
		group = group_at(g, (uint32_t)(uintptr_t)known->value - 1);
		done = group != NULL;
		if (!done)
			break;
		if (!group->label)
			group->label = *path ? arena_strdup(&g->result->arena, path) : none;
		done = group->label != NULL;
		add_whole(g, group, e);
	}
	return done;
}

/* Threads and sizes: splits each site into its parts. */
static int add_split(struct grouping *g, struct error *error)
{
	struct arena *arena = &g->result->arena;
	struct split_group *parts;
	size_t count;
	int status = g->by == AXIS_THREAD
			     ? split_by_thread(&g->selection, arena, &parts, &count, error)
			     : split_by_size(&g->selection, arena, &parts, &count, error);

	for (size_t i = 0; status == 0 && i < count; i++) {
		const struct stack_amount a = stack_amount_of_measures(&g->selection, &parts[i].m);
		const struct group group = {
			.label = parts[i].label, .self = a, .total = a, .unknown = parts[i].unknown
		};

		if (!vector_push(&g->groups, group))
			return error_set(error, "out of memory");
		g->selection.unknown_threads += parts[i].unknown;
	}
	return status;
}

static int collect(struct grouping *g, struct error *error)
{
	const struct selection *s = &g->selection;
	bool done = true;

	if (g->by == AXIS_THREAD || g->by == AXIS_SIZE)
		return add_split(g, error);
	if (axis_rows[g->by].of_frames)
		done = add_stacks(g);
	else if (g->by == AXIS_TYPE)
		done = add_types(g);
	else if (g->by != AXIS_PROCESS)
		done = add_words(g);
	else
		for (size_t i = 0; i < s->count && done; i++)
			done = add_process(g, &s->entries[i]);
	return done ? 0 : error_set(error, "out of memory");
}

static uint64_t shown_size(const struct selection *s, const struct stack_amount *a)
{
	return magnitude(selection_shown(s, s->cost, a->value));
}

static int compare_groups(const void *left, const void *right, void *context)
{
	const struct selection *s = context;
	const struct group *a = left, *b = right;

	if (a->unknown != b->unknown)
		return a->unknown ? 1 : -1;
	uint64_t x = shown_size(s, &a->self);
	uint64_t y = shown_size(s, &b->self);

	if (x == y) {
		x = shown_size(s, &a->total);
		y = shown_size(s, &b->total);
	}
	if (x != y)
		return x < y ? 1 : -1;
	if (a->location && b->location)
		return a->location->frame.id < b->location->frame.id ? -1 : 1;
	if (a->label && b->label)
		return strcmp(a->label, b->label);
	return a->process < b->process ? -1 : a->process > b->process;
}

static bool is_untimed(const struct selection *s, const struct stack_amount *a)
{
	return selection_is_untimed(s, a->value, a->also[ALSO_CALLS]);
}

/* Drops empty groups and sorts the rest by weight. */
static void order(struct grouping *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->groups.count; i++) {
		const struct group *group = &g->groups.at[i];

		if (group->unknown || is_untimed(&g->selection, &group->total) ||
		    shown_size(&g->selection, &group->total) ||
		    shown_size(&g->selection, &group->self))
			g->groups.at[kept++] = *group;
	}
	g->groups.count = kept;
	if (kept)
		qsort_r(g->groups.at, kept, sizeof *g->groups.at, compare_groups, &g->selection);
}

enum group_column {
	GROUP_SHARE,
	GROUP_SELF,
	GROUP_TOTAL_SHARE,
	GROUP_TOTAL,
	GROUP_BLOCKS,
	GROUP_CALLS,
	GROUP_SELF_BLOCKS,
	GROUP_SELF_CALLS,
	GROUP_NAME,
	GROUP_LABEL,
	GROUP_FILE,
	GROUP_LINE,
	GROUP_MODULE,
	GROUP_PROCESS,
	GROUP_SOURCE,
	GROUP_COLUMNS,
};

/* A frame's name on the axis: alone, and for people with its source location. */
static void name_frame(struct arena *arena, enum axis_id by, const struct location *location,
		       const char **ret_key, const char **ret_shown)
{
	const struct result_frame *f = &location->frame;
	const char *where = f->file ? f->file : f->module;

	*ret_key = *ret_shown = f->function;
	switch (by) {
	case AXIS_MODULE:
		*ret_key = f->module[0] ? f->module : f->function;
		*ret_shown = path_base(*ret_key);
		break;
	case AXIS_FILE:
		*ret_key = *ret_shown = where;
		break;
	case AXIS_LINE:
		if (!f->file)
			break;
		*ret_key = arena_printf(arena, "%s:%u", f->file, f->line);
		*ret_shown =
			arena_printf(arena, "%s:%u  %s", path_base(f->file), f->line, f->function);
		break;
	default:
		if (!location->nameless)
			*ret_shown = arena_printf(arena, "%s  %s", f->function, path_base(where));
	}
}

static void fill_names(struct grouping *g, const struct group *group, struct result_value *row)
{
	struct arena *arena = &g->result->arena;
	const struct result_frame *f = group->location ? &group->location->frame : NULL;
	const char *shown = group->label, *key = group->label;

	if (group->process)
		key = shown =
			group->process->rank
				? arena_printf(arena, "%u rank %u: %s", group->process->pid,
					       group->process->rank - 1, group->process->command)
				: arena_printf(arena, "%u %s", group->process->pid,
					       group->process->command);
	else if (f)
		name_frame(arena, g->by, group->location, &key, &shown);
	bool one_line = f && g->by <= AXIS_LINE && !group->many_lines;

	row[GROUP_NAME] = value_text(shown);
	row[GROUP_LABEL] = value_text(key);
	row[GROUP_FILE] = value_text(f && g->by != AXIS_MODULE ? f->file : NULL);
	row[GROUP_LINE] = value_id(one_line ? f->line : 0);
	row[GROUP_MODULE] = value_text(f ? f->module : NULL);
	row[GROUP_SOURCE] = value_unknown();
	if (one_line && f->file && g->query->sources) {
		const char *text = sources_line(g->query->sources, g->profile, f->file, f->line);

		row[GROUP_SOURCE] = text ? value_text(arena_strdup(arena, text)) : value_unknown();
	}
	row[GROUP_PROCESS] = value_id(group->process ? group->process->pid : 0);
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct grouping *g = context;
	const struct group *group = &g->groups.at[index];
	const struct selection *s = &g->selection;
	uint64_t whole = selection_magnitude(s, &s->sum);

	row[GROUP_SHARE] = value_percent(shown_size(s, &group->self), whole);
	row[GROUP_SELF] = stack_amount_value(s, &group->self);
	row[GROUP_TOTAL_SHARE] = value_percent(shown_size(s, &group->total), whole);
	row[GROUP_TOTAL] = stack_amount_value(s, &group->total);
	row[GROUP_BLOCKS] = stack_amount_also(s, &group->total, ALSO_BLOCKS);
	row[GROUP_CALLS] = stack_amount_also(s, &group->total, ALSO_CALLS);
	row[GROUP_SELF_BLOCKS] = stack_amount_also(s, &group->self, ALSO_BLOCKS);
	row[GROUP_SELF_CALLS] = stack_amount_also(s, &group->self, ALSO_CALLS);
	if (group->unknown) {
		row[GROUP_SHARE] = row[GROUP_SELF] = row[GROUP_TOTAL_SHARE] = value_unknown();
		row[GROUP_TOTAL] = row[GROUP_BLOCKS] = row[GROUP_SELF_BLOCKS] = value_unknown();
	}
	if (is_untimed(s, &group->self))
		row[GROUP_SHARE] = row[GROUP_SELF] = value_unknown();
	if (is_untimed(s, &group->total))
		row[GROUP_TOTAL_SHARE] = row[GROUP_TOTAL] = value_unknown();
	fill_names(g, group, row);
	return row[GROUP_NAME].text;
}

static bool describe_left_out(struct grouping *g, size_t shown)
{
	struct stack_amount rest = { 0 };
	struct words w = { 0 };
	struct result_table *t = &g->result->table;

	for (size_t i = shown; i < g->groups.count; i++)
		stack_amount_add(&rest, &g->groups.at[i].self);
	text_format(&w, "{} more with {} (--limit N shows more)",
		    value_count(g->groups.count - shown), stack_amount_value(&g->selection, &rest));
	t->left_out = words_take(&w, &g->result->arena, &t->left_out_count);
	return t->left_out != NULL;
}

static bool fill_table(struct grouping *g)
{
	size_t rows = MIN(g->groups.count, g->query->limit);
	const struct selection *s = &g->selection;
	const struct axis_row *axis = &axis_rows[g->by];
	const struct cost_row *cost = &cost_rows[s->cost];
	enum result_unit unit = selection_unit(s, s->cost);
	bool frames = axis->of_frames, moment = cost->time == COST_OF_MOMENT;
	bool shows_source = g->by == AXIS_LINE && g->query->sources;
	bool has_file = frames && g->by != AXIS_MODULE && g->by != AXIS_FILE;
	const struct result_column columns[GROUP_COLUMNS] = {
		[GROUP_SHARE] = { NULL, s->against ? NULL : title_of(g->result, s->share_title),
				  UNIT_PERCENT },
		[GROUP_SELF] = { frames ? "self" : cost->key,
				 frames ? "SELF" : title_of(g->result, s->title), unit },
		[GROUP_TOTAL_SHARE] = { NULL, frames && !s->against ? "" : NULL, UNIT_PERCENT },
		[GROUP_TOTAL] = { frames ? cost->key : NULL, frames ? "TOTAL" : NULL, unit },
		[GROUP_BLOCKS] = { s->cost == COST_BLOCKS ? NULL : "live_blocks",
				   moment && s->cost != COST_BLOCKS ? "BLOCKS" : NULL,
				   cost_unit(COST_BLOCKS, s->change) },
		[GROUP_CALLS] = { s->cost == COST_CALLS ? NULL : "calls",
				  !moment && s->cost != COST_CALLS ? "CALLS" : NULL,
				  cost_unit(COST_CALLS, s->against != NULL) },
		[GROUP_SELF_BLOCKS] = { frames ? "self_live_blocks" : NULL, NULL,
					cost_unit(COST_BLOCKS, s->change) },
		[GROUP_SELF_CALLS] = { frames ? "self_calls" : NULL, NULL,
				       cost_unit(COST_CALLS, s->against != NULL) },
		[GROUP_NAME] = { NULL, axis->title, UNIT_TEXT },
		[GROUP_LABEL] = { axis->name, NULL, UNIT_TEXT },
		[GROUP_FILE] = { has_file ? "source_file" : NULL, NULL, UNIT_TEXT },
		[GROUP_LINE] = { frames && g->by <= AXIS_LINE ? "source_line" : NULL, NULL,
				 UNIT_ID },
		[GROUP_MODULE] = { frames && g->by != AXIS_MODULE ? "module" : NULL, NULL,
				   UNIT_TEXT },
		[GROUP_SOURCE] = { shows_source ? "source_text" : NULL,
				   shows_source ? "SOURCE" : NULL, UNIT_TEXT },
		[GROUP_PROCESS] = { g->by == AXIS_PROCESS ? "pid" : NULL, NULL, UNIT_ID },
	};

	return result_fill(g->result, axis->plural, columns, GROUP_COLUMNS, rows, fill_row, g) &&
	       (rows == g->groups.count || describe_left_out(g, rows));
}

static int check_axis(enum axis_id by, enum axis_id usual, const struct query *query,
		      struct error *error)
{
	if (usual == AXIS_TYPE && by != AXIS_TYPE)
		return error_set(error,
				 "the view types groups by type: use --view functions for --by %s",
				 axis_rows[by].name);
	if (by == AXIS_SITE)
		return error_set(error, "sites have their own view: --view sites");
	if (query->against && (by == AXIS_THREAD || by == AXIS_SIZE || by == AXIS_PROCESS))
		return error_set(
			error,
			"recordings have no %s in common: compare by own, function, line, file, module, "
			"type, language, tag, label or pool",
			axis_rows[by].plural);
	return 0;
}

struct result *group_view_run(const char *name, enum axis_id usual, const struct profile *profile,
			      struct locations *locations, const struct query *query,
			      struct error *error)
{
	struct grouping g = { .profile = profile,
			      .locations = locations,
			      .owners = { .locations = locations },
			      .query = query,
			      .by = query->has_axis ? query->by : usual };
	bool done = false;

	if (check_axis(g.by, usual, query, error) < 0 ||
	    selection_make(&g.selection, profile, locations, query,
			   (struct view_defaults){ .cost = COST_LIVE, .at = MOMENT_PEAK },
			   error) < 0)
		return NULL;
	g.result = result_begin(name, profile, query, SELECTION_FIELDS);
	if (!g.result)
		goto no_memory;
	if (collect(&g, error) < 0)
		goto fail;
	order(&g);
	done = selection_fields(g.result, &g.selection) && fill_table(&g) &&
	       selection_headline(g.result, profile, query, &g.selection) &&
	       selection_notes(g.result, profile, locations, &g.selection);
	if (done)
		goto out;
no_memory:
	error_set(error, "out of memory");
fail:
	result_free(g.result);
out:
	vector_release(&g.groups);
	owners_release(&g.owners);
	selection_release(&g.selection);
	return done ? g.result : NULL;
}
