/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `freed-by`: one row per pair of a site and a stack that freed its blocks. Filters select the sites, as in other
 * views; --freed-in selects the stacks that free, so one question is which code frees what X allocates, and the other what Y
 * frees. A realloc frees the block that it is given.
 *
 * What no pair has is said: blocks whose free was not seen, and what ended before the recorder knew the stack.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/freed.h"
#include "util/cleanup.h"

#define FREED_COLUMN_LIST(X)                                                                       \
	X(FREED_PROCESS, "pid", "PID", UNIT_ID)                                                    \
	X(FREED_SITE, "site", NULL, UNIT_ID)                                                       \
	X(FREED_BYTES, "freed_bytes", "FREED", UNIT_BYTES)                                         \
	X(FREED_SHARE, NULL, "SHARE", UNIT_PERCENT)                                                \
	X(FREED_BLOCKS, "frees", "FREES", UNIT_COUNT)                                              \
	X(FREED_AT, NULL, "FREED IN", UNIT_TEXT)                                                   \
	X(FREED_FROM, NULL, "ALLOCATED IN", UNIT_TEXT)                                             \
	X(FREED_STACK, "stack", NULL, UNIT_FRAMES)                                                 \
	X(FREED_FREE_STACK, "free_stack", NULL, UNIT_FRAMES)
enum freed_column { FREED_COLUMN_LIST(COLUMN_ID) FREED_COLUMNS };

struct freed_row {
	const struct entry *entry;
	const struct profile_freed *pair;
};

struct freed_view {
	struct result *result;
	const struct profile *profile;
	struct locations *locations;
	const struct query *query;
	const struct selection *selection;
	struct arena arena; /* the pairs */
	VECTOR(struct freed_row) rows;
	uint64_t bytes, blocks;
	double bytes_variance;
};

/* Whether each --freed-in matches a frame of the stack. */
static bool stack_fits(struct freed_view *v, const struct profile_process *p, node_id stack)
{
	const struct filters *f = &v->query->filters;

	for (size_t i = 0; i < f->rules.count; i++) {
		const struct rule *rule = &f->rules.at[i];
		bool fits = rule->kind != RULE_FREED_IN;

		for (node_id at = stack; at.v && !fits; at = profile_parent(p, at)) {
			struct location_chain chain = locations_of(v->locations, p, at);

			for (size_t k = 0; k < chain.count && !fits; k++) {
				const struct result_frame *frame = &chain.at[k]->frame;
				const char *const names[] = { frame->function, frame->full,
							      frame->file ? frame->file : "" };

				fits = filters_rule_fits(rule, names, ARRAY_SIZE(names));
			}
		}
		if (!fits)
			return false;
	}
	return true;
}

static bool add_process(struct freed_view *v, const struct profile_process *p)
{
	const struct selection *s = v->selection;
	AUTO_FREE const struct entry **by_site = NULL;
	struct profile_freed *pairs;
	ptrdiff_t count = profile_freed(p, &v->arena, &pairs);
	uint32_t most = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].process == p)
			most = MAX(most, s->entries[i].site->id.v);
	by_site = calloc((size_t)most + 1, sizeof *by_site);
	if (count < 0 || !by_site)
		return false;
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].process == p)
			by_site[s->entries[i].site->id.v] = &s->entries[i];
	for (ptrdiff_t i = 0; i < count; i++) {
		const struct entry *e = pairs[i].site.v <= most ? by_site[pairs[i].site.v] : NULL;

		if (!e || !stack_fits(v, p, pairs[i].node))
			continue;
		if (!vector_push(&v->rows, ((struct freed_row){ e, &pairs[i] })))
			return false;
		v->bytes = saturating_add(v->bytes, pairs[i].bytes);
		v->blocks = saturating_add(v->blocks, pairs[i].blocks);
		v->bytes_variance +=
			estimate_variance(&e->site->numbers, VARIANCE_FREED_BYTES, pairs[i].bytes);
	}
	return true;
}

static int compare_rows(const void *left, const void *right)
{
	const struct freed_row *a = left, *b = right;

	if (a->pair->bytes != b->pair->bytes)
		return a->pair->bytes < b->pair->bytes ? 1 : -1;
	if (a->pair->blocks != b->pair->blocks)
		return a->pair->blocks < b->pair->blocks ? 1 : -1;
	if (a->entry != b->entry)
		return a->entry < b->entry ? -1 : 1;
	return a->pair->node.v < b->pair->node.v ? -1 : 1;
}

static bool collect(struct freed_view *v)
{
	for (size_t i = 0; i < v->profile->process_count; i++)
		if (!add_process(v, &v->profile->processes[i]))
			return false;
	if (v->rows.count)
		qsort(v->rows.at, v->rows.count, sizeof *v->rows.at, compare_rows);
	return true;
}

static bool fill_row(void *context, size_t index, struct result_value *to)
{
	const struct freed_view *v = context;
	const struct entry *e = v->rows.at[index].entry;
	const struct profile_freed *pair = v->rows.at[index].pair;

	to[FREED_PROCESS] = value_id(e->process->pid);
	to[FREED_SITE] = value_id(e->site->id.v);
	/* Of a sampled site: a share of the variance of all that was freed. */
	to[FREED_BYTES] =
		value_part(UNIT_BYTES, pair->bytes, VARIANCE_FREED_BYTES, &e->site->numbers);
	to[FREED_SHARE] = value_percent(pair->bytes, v->bytes);
	to[FREED_BLOCKS] = value_part(UNIT_COUNT, pair->blocks, VARIANCE_FREES, &e->site->numbers);
	to[FREED_AT] = value_text(stack_label(v->result, v->locations, e->process, pair->node));
	to[FREED_FROM] =
		value_text(stack_label(v->result, v->locations, e->process, e->site->node));
	return to[FREED_AT].text && to[FREED_FROM].text &&
	       stack_value(v->result, v->locations, e->process, e->site->node, &to[FREED_STACK]) &&
	       stack_value(v->result, v->locations, e->process, pair->node, &to[FREED_FREE_STACK]);
}

static bool fill_table(struct freed_view *v)
{
	struct result_column columns[] = { FREED_COLUMN_LIST(COLUMN_ROW) };
	size_t shown = MIN(v->rows.count, v->query->limit);

	if (v->profile->process_count == 1)
		columns[FREED_PROCESS].title = NULL;
	return result_fill(v->result, "pairs", columns, FREED_COLUMNS, shown, fill_row, v) &&
	       result_left_out(v->result, v->rows.count - shown, " more pair", " more pairs");
}

static bool say(struct freed_view *v)
{
	struct sentences sentences = { .result = v->result };
	struct words words = { 0 }, headline = { 0 };
	uint64_t frees = 0;

	bool picks_stacks = filters_look_at(&v->query->filters, RULE_FREED_IN);

	for (size_t i = 0; i < v->selection->count; i++)
		frees = saturating_add(frees, v->selection->entries[i].site->numbers.frees);
	words_headline(&headline, v->result, v->profile);
	if (v->blocks == 0 && frees > 0 && !picks_stacks) {
		words_text(&headline, "not known who frees");
	} else {
		text_format(&headline, "{} freed in ",
			    value_estimate(value_bytes(v->bytes), v->bytes_variance));
		words_count(&headline, v->blocks, " block", " blocks");
	}
	sentences_add(&sentences, NULL, &headline, NULL);

	if (v->blocks == 0 && frees > 0) {
		words_text(&words, picks_stacks
					   ? "no stack that frees matches --freed-in"
					   : "unknown: heapgauge record --free-sites records the "
					     "stacks that free blocks");
		sentences_add(&sentences, "freed", &words, NULL);
	} else if (v->blocks < frees && !picks_stacks) {
		words_count(&words, frees - v->blocks, " block was", " blocks were");
		words_text(&words, " freed on a stack that is not known");
		sentences_add(&sentences, "unknown", &words, NULL);
	}
	return sentences_end(&sentences);
}

struct result *analyse_freed_by(const struct profile *profile, struct locations *locations,
				const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection selection = { 0 };
	struct freed_view v = { .profile = profile,
				.locations = locations,
				.query = query,
				.selection = &selection,
				.arena = ARENA_INIT };
	struct query of_heap = *query;

	if (query->against || query->filters.thread) {
		error_set(error, query->against ? "the view freed-by is of one recording"
						: "the view freed-by is of all threads: omit "
						  "--thread");
		return NULL;
	}
	of_heap.kinds = KINDS_HEAP;
	if (selection_make(&selection, profile, locations, &of_heap,
			   (struct view_defaults){ .cost = COST_TOTAL, .at = MOMENT_END },
			   error) < 0)
		return NULL;
	v.result = result_begin("freed-by", profile, query, 0);
	bool done = v.result && collect(&v) && fill_table(&v) && say(&v) &&
		    selection_notes(v.result, profile, locations, &selection);

	arena_release(&v.arena);
	vector_release(&v.rows);
	return result_end(v.result, done, error);
}
