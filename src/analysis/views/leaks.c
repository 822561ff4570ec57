/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `leaks`: memory not freed at exit, with its age then. Without an image of the process it is unknown whether
 * the program could still reach it, so nothing is called leaked; with one, unreachable blocks come first.
 *
 * The rows of a process that was still running say "live".
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/query/site_table.h"
#include "analysis/result/path_value.h"
#include "analysis/result/types.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/ages.h"
#include "model/image/paths.h"
#include "model/image/reach.h"
#include "util/cleanup.h"
#include "util/intern.h"

/* Sums the blocks and bytes of the selected sites by age. False if out of memory. */
static bool add_ages(const struct selection *s, uint64_t bytes[TIME_CLASSES],
		     struct time_class blocks[TIME_CLASSES])
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	size_t processes = s->profile->process_count;
	struct profile_ages *all = ARENA_ARRAY(&scratch, struct profile_ages, processes);

	if (!all)
		return false;
	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		struct profile_ages *ages = &all[e->process - s->profile->processes];

		if (!ages->first &&
		    profile_ages(e->process, selection_slots(s, e->process), &scratch, ages) < 0)
			return false;
		uint32_t end = ages->first[e->site->id.v + 1];

		for (uint32_t j = ages->first[e->site->id.v]; j < end; j++) {
			const struct profile_age *age = &ages->at[j];
			unsigned at_class = time_class_of(age->low_ms);
			struct time_class *class = &blocks[at_class];

			bytes[at_class] = saturating_add(bytes[at_class], age->bytes);
			class->count = saturating_add(class->count, age->blocks);
			class->high_ms = MAX(class->high_ms, age->high_ms);
			class->variance +=
				estimate_variance(&e->site->numbers, VARIANCE_CALLS, age->blocks);
		}
	}
	return true;
}

/* "age  98.9 % of it is older than 4.1 s" */
static void describe_age(struct sentences *sentences, const struct selection *s)
{
	uint64_t bytes[TIME_CLASSES] = { 0 }, total = 0, older = 0;
	struct time_class blocks[TIME_CLASSES] = { 0 };
	struct words w = { 0 };

	if (s->slots || s->asked.kind != MOMENT_END || s->change)
		return; /* ages are known for whole sites, at the end */
	if (!add_ages(s, bytes, blocks))
		sentences->failed = true;
	time_classes_tell(sentences, "ages", blocks);
	for (size_t i = 0; i < TIME_CLASSES; i++)
		total = saturating_add(total, bytes[i]);
	if (total == 0)
		return;
	size_t bucket = TIME_CLASSES;

	while (older < total - total / 2)
		older = saturating_add(older, bytes[--bucket]);
	if (bucket == 0)
		text_format(&w, "{} of it was allocated less than 1 ms before exit",
			    value_percent(older, total));
	else
		text_format(&w, "{} of it is older than {}", value_percent(older, total),
			    value_ns((UINT64_C(1) << (bucket - 1)) * 1000000));
	sentences_add(sentences, "age", &w, NULL);
}

/* ---- with an image ---- */

static uint64_t unreachable_of(const struct selection *s, const struct entry *e)
{
	struct profile_reach reach = profile_site_reach(e->process, e->site->id);

	(void)s;
	return reach_unreachable_bytes(&reach);
}

static uint64_t retained_by(const struct entry *e)
{
	return profile_site_reach(e->process, e->site->id).retained_bytes;
}

/* "unknown  60.3 KiB in 50 blocks of processes without an image" */
static void describe_unknown(struct sentences *sentences, uint64_t bytes, uint64_t blocks)
{
	struct words w = { 0 };

	text_format(&w, "{} in ", value_bytes(bytes));
	words_count(&w, blocks, " block", " blocks");
	words_text(&w, " of processes without an image");
	sentences_add(sentences, "unknown", &w, NULL);
}

/* "unreachable  4.0 KiB in 17 blocks: 3 KiB nothing refers to, 640 B behind those, 256 B in reference cycles" */
static void describe_unreachable(struct sentences *sentences, const struct selection *s)
{
	struct profile_reach sum = { 0 };
	/* Of processes without an image; what a program had that another one replaced is gone. */
	uint64_t unknown_bytes = 0, unknown_blocks = 0;
	struct result_value by_class;
	struct words w = { 0 };

	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		struct profile_reach reach = profile_site_reach(e->process, e->site->id);

		if (!profile_has_reach(e->process) && e->process->end != PROFILE_BECAME) {
			unknown_bytes = saturating_add(unknown_bytes,
						       (uint64_t)MAX(e->m.live_bytes, INT64_C(0)));
			unknown_blocks = saturating_add(
				unknown_blocks, (uint64_t)MAX(e->m.live_blocks, INT64_C(0)));
		}
		for (unsigned k = 0; k < REACH_CLASSES; k++) {
			sum.blocks[k] = saturating_add(sum.blocks[k], reach.blocks[k]);
			sum.bytes[k] = saturating_add(sum.bytes[k], reach.bytes[k]);
		}
		sum.interior_blocks = saturating_add(sum.interior_blocks, reach.interior_blocks);
	}
	if (!reach_value(sentences->result, &sum, &by_class))
		sentences->failed = true;
	result_head_add(sentences->result, "reach", by_class);
	if (reach_unreachable_blocks(&sum) == 0) {
		words_text(&w, unknown_blocks ? "nothing in the processes with an image"
					      : "nothing: every block can still be reached");
	} else {
		text_format(&w, "{} in ", value_bytes(reach_unreachable_bytes(&sum)));
		words_count(&w, reach_unreachable_blocks(&sum), " block", " blocks");
		text_format(&w, ": {} that nothing refers to, {} behind other unreachable blocks",
			    value_bytes(sum.bytes[REACH_DIRECT]),
			    value_bytes(sum.bytes[REACH_INDIRECT]));
		text_format(&w, ", {} in reference cycles", value_bytes(sum.bytes[REACH_RING]));
	}
	sentences_add(sentences, "unreachable", &w, NULL);
	w = (struct words){ 0 };
	text_format(&w, "{} from global variables, {} from thread-local ones",
		    value_bytes(sum.bytes[REACH_GLOBAL]), value_bytes(sum.bytes[REACH_TLS]));
	text_format(&w, ", {} from other mappings, {} only from stacks",
		    value_bytes(sum.bytes[REACH_UNKNOWN]), value_bytes(sum.bytes[REACH_STACK]));
	if (sum.interior_blocks) {
		words_text(&w, "; ");
		words_count(&w, sum.interior_blocks, " block", " blocks");
		words_text(&w, " only through pointers into the middle of a block");
	}
	sentences_add(sentences, "reachable", &w, NULL);
	if (unknown_blocks)
		describe_unknown(sentences, unknown_bytes, unknown_blocks);
}

enum { ROOTS_MAX = 100, ROOTS_SAID = 3 };

static int by_name(const void *left, const void *right)
{
	return strcmp(((const struct result_field *)left)->name,
		      ((const struct result_field *)right)->name);
}

static int by_bytes(const void *left, const void *right)
{
	const struct result_field *a = left, *b = right;

	if (a->value.number != b->value.number)
		return a->value.number < b->value.number ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* Roots of one name become one, and the largest come first. Returns how many remain. */
static size_t merge_roots(struct result_field *roots, size_t count)
{
	size_t kept = 0;

	if (!count)
		return 0;
	qsort(roots, count, sizeof *roots, by_name);
	for (size_t i = 1; i < count; i++) {
		if (strcmp(roots[i].name, roots[kept].name) != 0)
			roots[++kept] = roots[i];
		else
			roots[kept].value.number =
				saturating_add(roots[kept].value.number, roots[i].value.number);
	}
	qsort(roots, kept + 1, sizeof *roots, by_bytes);
	return MIN(kept + 1, (size_t)ROOTS_MAX);
}

/* "roots  2.1 MiB registry (server), 71.0 KiB libstdc++.so.6". Of whole processes. */
static void describe_roots(struct sentences *sentences, const struct selection *s)
{
	struct arena *arena = &sentences->result->arena;
	size_t count = 0, all = 0;
	struct words w = { 0 };

	for (size_t i = 0; i < s->profile->process_count; i++)
		all += s->processes[i] ? profile_root_count(&s->profile->processes[i]) : 0;
	struct result_field *roots = ARENA_ARRAY(arena, struct result_field, all + 1);

	for (size_t i = 0; roots && i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];

		for (size_t k = 0; s->processes[i] && k < profile_root_count(p); k++) {
			uint64_t bytes = profile_root_retained_bytes(p, k);
			const char *name = profile_root_at(p, k, arena);

			if (name && bytes)
				roots[count++] = (struct result_field){ name, value_bytes(bytes) };
			sentences->failed |= !name;
		}
	}
	sentences->failed |= !roots;
	count = merge_roots(roots, count);
	if (!count)
		return;
	for (size_t i = 0; i < MIN(count, (size_t)ROOTS_SAID); i++) {
		text_format(&w, i ? ", {} " : "{} ", roots[i].value);
		words_text(&w, roots[i].name);
	}
	sentences_add(sentences, "roots", &w, NULL);
	result_head_add(sentences->result, "retained_by_root",
			(struct result_value){ .unit = UNIT_FIELDS, .fields = { roots, count } });
}

static void words_taken(struct words *w, const struct profile_image *image, size_t count)
{
	if (image->taken == REACH_CORE)
		words_text(w, "its core file was examined");
	else if (count > 1)
		text_format(w, "the processes were stopped for up to {}",
			    value_ns(image->stopped_ns));
	else
		text_format(w,
			    image->taken == REACH_CLONE
				    ? "the process was stopped for {}, and a copy was examined"
				    : "the process was stopped for {} and examined",
			    value_ns(image->stopped_ns));
}

/* "image  the process was stopped for 94.0 ms, and a copy was examined"; of several the longest stop, and what all of them lack */
static void describe_image(struct sentences *sentences, const struct selection *s)
{
	struct profile_image all = { 0 };
	struct words w = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];
		struct profile_image image = profile_image(p);

		if (!s->processes[i] || !profile_has_reach(p))
			continue;
		count++;
		all.taken = image.taken;
		all.stopped_ns = MAX(all.stopped_ns, image.stopped_ns);
		all.in_flight = saturating_add(all.in_flight, image.in_flight);
		all.unreadable_bytes = saturating_add(all.unreadable_bytes, image.unreadable_bytes);
	}
	if (!count)
		return;
	words_taken(&w, &all, count);
	if (all.in_flight) {
		words_text(&w, "; being allocated, moved or freed: ");
		words_count(&w, all.in_flight, " block", " blocks");
		words_text(&w, ", and what only a moved one refers to looks unreachable");
	}
	if (all.unreadable_bytes)
		text_format(&w, "; {} of its memory could not be read",
			    value_bytes(all.unreadable_bytes));
	sentences_add(sentences, "image", &w, NULL);
}

static void describe_both(struct sentences *sentences, const struct selection *s)
{
	describe_unreachable(sentences, s);
	describe_roots(sentences, s);
	describe_image(sentences, s);
	describe_age(sentences, s);
}

/*
 * ---- with an image, by type ----
 *
 * C++ classes with virtual functions, known from the objects themselves. All other blocks are in one row. Types of several processes are
 * one if they have the same name.
 */

struct type_sum {
	const char *name; /* NULL: all others */
	uint64_t blocks, bytes, unreachable_bytes, retained_bytes;
};

struct by_type {
	struct result *result;
	struct selection selection;
	struct intern names;
	VECTOR(struct type_sum) sums; /* [0]: all others */
	size_t *of_type;	      /* of one process: the sum of each type; 0: not seen yet */
};

static void add_type(struct type_sum *sum, uint64_t blocks, uint64_t bytes,
		     uint64_t unreachable_bytes)
{
	sum->blocks = saturating_add(sum->blocks, blocks);
	sum->bytes = saturating_add(sum->bytes, bytes);
	sum->unreachable_bytes = saturating_add(sum->unreachable_bytes, unreachable_bytes);
}

/* The sum of a type, made if it has none. The first time in a process what its objects retain there is added. NULL if out of memory. */
static struct type_sum *sum_of(struct by_type *t, const struct profile_process *p, uint32_t type)
{
	if (t->of_type[type])
		return &t->sums.at[t->of_type[type]];
	const char *name = type_label(&t->result->arena, p, type);
	struct intern_entry *entry =
		name ? intern_entry(&t->names, span_of(name, strlen(name))) : NULL;

	if (!entry)
		return NULL;
	if (!entry->value) {
		struct type_sum sum = { .name = name };

		if (!vector_push(&t->sums, sum))
			return NULL;
		entry->value = (void *)(uintptr_t)(t->sums.count - 1);
	}
	t->of_type[type] = (size_t)(uintptr_t)entry->value;
	struct type_sum *sum = &t->sums.at[t->of_type[type]];

	sum->retained_bytes =
		saturating_add(sum->retained_bytes, profile_type_retained_bytes(p, type));
	return sum;
}

static bool add_types_of_site(struct by_type *t, const struct entry *e)
{
	struct profile_reach all = profile_site_reach(e->process, e->site->id);
	struct type_sum rest = { .unreachable_bytes = reach_unreachable_bytes(&all) };
	struct profile_type_cursor at = { 0 };
	struct profile_site_type type;

	for (unsigned i = 0; i < REACH_CLASSES; i++)
		add_type(&rest, all.blocks[i], all.bytes[i], 0);
	while (profile_site_type_next(e->process, e->site->id, &at, &type)) {
		struct type_sum *sum = sum_of(t, e->process, type.type);

		if (!sum)
			return false;
		add_type(sum, type.blocks, type.bytes, type.unreachable_bytes);
		rest.blocks = saturating_sub(rest.blocks, type.blocks);
		rest.bytes = saturating_sub(rest.bytes, type.bytes);
		rest.unreachable_bytes =
			saturating_sub(rest.unreachable_bytes, type.unreachable_bytes);
	}
	add_type(&t->sums.at[0], rest.blocks, rest.bytes, rest.unreachable_bytes);
	return true;
}

/* Entries are sorted by process. */
static bool add_all_types(struct by_type *t)
{
	const struct profile_process *now = NULL;
	struct type_sum rest = { 0 };

	if (!vector_push(&t->sums, rest))
		return false;
	for (size_t i = 0; i < t->selection.count; i++) {
		const struct entry *e = &t->selection.entries[i];

		if (e->process != now) {
			now = e->process;
			free(t->of_type);
			t->of_type = calloc(profile_type_count(now) + 1, sizeof *t->of_type);
		}
		if (!t->of_type || !add_types_of_site(t, e))
			return false;
	}
	return true;
}

static int compare_sums(const void *left, const void *right)
{
	const struct type_sum *a = left, *b = right;

	if (!a->name != !b->name)
		return a->name ? -1 : 1;
	if (a->retained_bytes != b->retained_bytes)
		return a->retained_bytes > b->retained_bytes ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->name ? strcmp(a->name, b->name) : 0;
}

enum { TYPE_RETAINED, TYPE_LIVE, TYPE_BLOCKS, TYPE_UNREACHABLE, TYPE_NAME, TYPE_COLUMNS };

static bool fill_type(void *context, size_t index, struct result_value *row)
{
	const struct type_sum *sum = &((struct by_type *)context)->sums.at[index];

	row[TYPE_RETAINED] = sum->name ? value_bytes(sum->retained_bytes) : value_unknown();
	row[TYPE_LIVE] = value_bytes(sum->bytes);
	row[TYPE_BLOCKS] = value_count(sum->blocks);
	row[TYPE_UNREACHABLE] = value_bytes(sum->unreachable_bytes);
	row[TYPE_NAME] = value_text(sum->name ? sum->name : TYPE_UNKNOWN);
	return true;
}

/* Why a core file has no types at all: their names are where vtables point to, in memory that the kernel leaves out by default. */
static bool describe_missing_types(struct by_type *t, const struct profile *profile)
{
	struct sentences sentences = { .result = t->result };
	struct words w = { 0 };

	if (t->sums.count > 1)
		return true;
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		if (!profile_has_reach(p) || profile_image(p).taken != REACH_CORE)
			continue;
		words_text(&w, "unknown if the core file has no read-only data: 'echo 0x37 "
			       ">/proc/self/coredump_filter' before the program starts adds it");
		sentences_add(&sentences, "types", &w, NULL);
		break;
	}
	return sentences_end(&sentences);
}

static bool make_types(struct by_type *t, const struct profile *profile,
		       struct locations *locations, const struct query *query)
{
	static const struct result_column columns[TYPE_COLUMNS] = {
		[TYPE_RETAINED] = { "retained_bytes", "RETAINS", UNIT_BYTES },
		[TYPE_LIVE] = { "live_bytes", "LIVE", UNIT_BYTES },
		[TYPE_BLOCKS] = { "live_blocks", "BLOCKS", UNIT_COUNT },
		[TYPE_UNREACHABLE] = { "unreachable_bytes", "UNREACHABLE", UNIT_BYTES },
		[TYPE_NAME] = { "type", "TYPE", UNIT_TEXT },
	};

	if (!t->result || !add_all_types(t))
		return false;
	qsort(t->sums.at, t->sums.count, sizeof *t->sums.at, compare_sums);
	size_t count = t->sums.count - (t->sums.at[t->sums.count - 1].blocks == 0);
	size_t rows = MIN(count, query->limit);

	return selection_fields(t->result, &t->selection) &&
	       result_fill(t->result, "types", columns, TYPE_COLUMNS, rows, fill_type, t) &&
	       result_left_out(t->result, count - rows, " more type", " more types") &&
	       selection_headline(t->result, profile, query, &t->selection) &&
	       describe_missing_types(t, profile) &&
	       selection_notes(t->result, profile, locations, &t->selection);
}

static struct result *leaks_by_type(const char *name, const struct profile *profile,
				    struct locations *locations, const struct query *query,
				    struct error *error)
{
	struct by_type t = { .result = NULL };

	if (selection_make(&t.selection, profile, locations, query,
			   (struct view_defaults){
				   .cost = COST_LIVE, .at = MOMENT_END, .kinds = KINDS_HEAP },
			   error) < 0)
		return NULL;
	t.result = result_begin(name, profile, query, SELECTION_FIELDS);
	bool done = make_types(&t, profile, locations, query);

	free(t.of_type);
	vector_release(&t.sums);
	intern_release(&t.names);
	selection_release(&t.selection);
	return result_end(t.result, done, error);
}

static const struct site_view sites_leaks_of_image = {
	.defaults = { COST_LIVE, MOMENT_END, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_UNREACHABLE_BYTES, SITE_UNREACHABLE_BLOCKS,
				    SITE_NOT_FREED_BYTES, SITE_RETAINED_BYTES, SITE_TYPE,
				    SITE_MEDIAN_AGE_NS, SITE_AGES, SITE_HELD_BY, SITE_PATH,
				    SITE_REACH),
	.wanted = site_is_live,
	.weight = unreachable_of,
	.then = retained_by,
	.say = describe_both,
	.by_type = leaks_by_type,
};

const struct site_view sites_leaks = {
	.defaults = { COST_LIVE, MOMENT_END, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_MEAN_NOT_FREED_BYTES, SITE_FIRST_SEEN_NS,
				    SITE_MEDIAN_AGE_NS, SITE_AGES),
	.wanted = site_is_live,
	.of_image = &sites_leaks_of_image,
	.say = describe_age,
};
