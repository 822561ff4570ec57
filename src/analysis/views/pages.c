/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The views `pages`, `pins` and `map`.
 *
 * `pages` and `pins`: which sites the resident memory belongs to, and which of them keep pages that are mostly free.
 *
 * Both show the one moment for which pages were read. The lines above the table of `pages` add up to the RSS; the first of
 * them is the sum of the table. `pins` says what would come back: what is forecast is a page that becomes empty, which glibc returns at
 * the end of a heap by itself and elsewhere with malloc_trim.
 *
 * The view `map`: where the resident memory is, a row for each region of the address space, the largest first. In machine formats a
 * region has its tiles and its blocks as arrays of numbers, which the page draws.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/query/selection.h"
#include "analysis/query/site_table.h"
#include "analysis/result/build.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/memory/page_map.h"
#include "model/memory/pages.h"
#include "util/cleanup.h"
#include "util/text/units.h"

enum { HEAPS_SHOWN = 3, LEAST_HELD = 128 << 10 };

/* The process with the most resident memory among those whose pages are known. */
static const struct profile_process *largest(const struct selection *s, struct profile_pages *ret,
					     size_t *ret_count)
{
	const struct profile_process *best = NULL;
	struct profile_pages pages;

	*ret = (struct profile_pages){ 0 };
	*ret_count = 0;
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];

		if (!s->processes[i] || !profile_pages(p, &pages))
			continue;
		++*ret_count;
		if (!best || pages.rss_bytes > ret->rss_bytes) {
			best = p;
			*ret = pages;
		}
	}
	return best;
}

static void add_line(struct sentences *s, const char *label, uint64_t bytes, const char *meaning)
{
	struct words w = { 0 }, more = { 0 };

	words_add(&w, value_bytes(bytes));
	words_text(&more, meaning);
	sentences_add(s, label, &w, &more);
	if (s->list.count)
		s->list.at[s->list.count - 1].aligned = true;
}

/* The heap with the most held pages, below a number of them; held_bytes 0: none. */
static struct profile_heap most_held(const struct profile_process *p, size_t heap_count,
				     uint64_t below)
{
	struct profile_heap best = { 0 };

	for (size_t i = 0; i < heap_count; i++) {
		struct profile_heap heap = profile_heap_at(p, i);

		if (heap.held_bytes < below && heap.held_bytes > best.held_bytes && heap.holder)
			best = heap;
	}
	return best;
}

/* Why there may be live blocks that are not known; NULL: all are. */
static const char *unknown_blocks(const struct profile_pages *m)
{
	return m->has_unrecorded ? "not recorded" : m->has_inherited ? "inherited" : NULL;
}

static void tell_fields(struct sentences *s, const struct profile_process *p,
			const struct profile_pages *m)
{
	struct profile_heap heap = most_held(p, m->heap_count, UINT64_MAX);
	const bool forecasts = !unknown_blocks(m);
	const struct result_field fields[] = {
		{ "pid", value_id(p->pid) },
		{ "at_ns", value_ns(m->at_ns) },
		{ "at_exit", value_flag(m->at_exit) },
		{ "rss_bytes", value_bytes(m->rss_bytes) },
		{ "sites_bytes", value_bytes(m->sites_bytes) },
		{ "free_bytes", value_bytes(m->free_bytes) },
		{ "unrecorded_bytes", value_bytes(m->unrecorded_bytes) },
		{ "static_bytes", value_bytes(m->static_bytes) },
		{ "stack_bytes", value_bytes(m->stack_bytes) },
		{ "shared_bytes", value_bytes(m->shared_bytes) },
		{ "file_bytes", value_bytes(m->file_bytes) },
		{ "recorder_bytes", value_bytes(m->own_bytes) },
		{ "changed_bytes", value_bytes(m->changed_bytes) },
		{ "changed_blocks", value_count(m->changed_blocks) },
		{ "waste_bytes", value_bytes(m->waste_bytes) },
		{ "unknown_blocks", value_text(unknown_blocks(m)) },
		{ "trim_bytes", forecasts ? value_bytes(m->trim_bytes) : value_unknown() },
		{ "held_bytes", forecasts ? value_bytes(heap.held_bytes) : value_unknown() },
		{ "holder_blocks", forecasts ? value_count(heap.holder_blocks) : value_unknown() },
		{ "holder_bytes", forecasts ? value_bytes(heap.holder_bytes) : value_unknown() },
		{ "holder_site", heap.holder ? value_id(heap.holder->id.v) : value_unknown() },
	};
	const struct result_field *kept = arena_copy(&s->result->arena, fields, sizeof fields);

	s->failed |= !kept;
	result_head_add(s->result, "pages",
			(struct result_value){ .unit = UNIT_FIELDS,
					       .fields = { kept, ARRAY_SIZE(fields) } });
}

/* "process  4711 server, which has the most of the 3 processes whose pages were read" */
static void describe_process(struct sentences *s, const struct profile_process *p, size_t count)
{
	struct words w = { 0 };

	if (count < 2)
		return;
	text_format(&w,
		    "{} {}, which has the most memory of the {} whose pages were read: "
		    "the lines here are of it alone, and --process PID shows another",
		    value_id(p->pid), value_text(command_short(&s->result->arena, p->command)),
		    value_count(count));
	sentences_add(s, "process", &w, NULL);
}

/* "read  3.2 s after its start; 12 blocks and 8.0 KiB of pages changed meanwhile and are not attributed" */
static void describe_reading(struct sentences *s, const struct profile_pages *m)
{
	struct words w = { 0 };

	text_format(&w, m->at_exit ? "when it exited, {} after its start" : "{} after its start",
		    value_ns(m->at_ns));
	if (m->changed_blocks || m->changed_bytes) {
		words_text(&w, "; ");
		words_count(&w, m->changed_blocks, " block", " blocks");
		text_format(&w, " and {} of pages changed meanwhile and are not attributed",
			    value_bytes(m->changed_bytes));
	}
	if (!m->knows_huge)
		words_text(&w, "; this kernel does not tell huge pages and zero pages");
	sentences_add(s, "read", &w, NULL);
	if (!unknown_blocks(m))
		return;
	w = (struct words){ 0 };
	words_text(
		&w,
		m->has_unrecorded
			? "there may be live blocks that were not recorded"
			: "there may be live blocks from before the fork that began the process");
	words_text(&w, ": their pages count as free, or with the blocks beside them");
	sentences_add(s, "not known", &w, NULL);
}

static void describe_pages(struct sentences *s, const struct selection *selection)
{
	struct profile_pages m;
	size_t count;
	const struct profile_process *p = largest(selection, &m, &count);

	if (!p)
		return;
	const struct {
		const char *label;
		uint64_t bytes;
		const char *meaning;
		bool always;
	} lines[] = {
		{ "sites", m.sites_bytes,
		  arena_printf(&s->result->arena,
			       "pages with live blocks, and mappings; of it %s in no block",
			       units_bytes(m.waste_bytes).text),
		  true },
		{ "+ free", m.free_bytes,
		  "pages of the allocator without a live block, and its own data", true },
		{ "+ not recorded", m.unrecorded_bytes, "other anonymous memory", true },
		{ "+ static data", m.static_bytes, ".bss (zero-initialized variables)", false },
		{ "+ stacks", m.stack_bytes, "of all threads", true },
		{ "+ files", m.file_bytes, "programs, libraries, mapped files", true },
		{ "+ shared", m.shared_bytes, "with other processes", false },
		{ "+ recorder", m.own_bytes, "what recording costs", true },
		{ "+ changed", m.changed_bytes, "became resident while pages were read", false },
		{ "= RSS", m.rss_bytes, "resident, as the kernel counts it", true },
	};

	tell_fields(s, p, &m);
	describe_process(s, p, count);
	describe_reading(s, &m);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (lines[i].bytes || lines[i].always)
			add_line(s, lines[i].label, lines[i].bytes, lines[i].meaning);
}

/* "end of heap  1 block of 48 B, 3.1 s old, keeps 12.0 MiB of free pages below it from being returned: parse (a.c:12)" */
static void describe_heap(struct sentences *s, const struct selection *selection,
			  const struct profile_process *p, const struct profile_heap *heap)
{
	struct words w = { 0 };

	words_count(&w, heap->holder_blocks, " block of ", " blocks of together ");
	text_format(&w, "{}, {} old, ", value_bytes(heap->holder_bytes),
		    value_ns(heap->holder_age_ns));
	words_text(&w, heap->holder_blocks == 1 ? "keeps " : "keep ");
	text_format(
		&w, "{} of free pages from being returned: {}", value_bytes(heap->held_bytes),
		value_text(stack_label(s->result, selection->locations, p, heap->holder->node)));
	sentences_add(s, heap->is_main ? "end of heap" : "end of arena", &w, NULL);
}

static void describe_heaps(struct sentences *s, const struct selection *selection,
			   const struct profile_process *p, size_t heap_count)
{
	struct profile_heap heap = most_held(p, heap_count, UINT64_MAX);

	for (size_t i = 0; i < HEAPS_SHOWN && heap.held_bytes >= LEAST_HELD; i++) {
		describe_heap(s, selection, p, &heap);
		heap = most_held(p, heap_count, heap.held_bytes);
	}
}

static void describe_pins(struct sentences *s, const struct selection *selection)
{
	struct profile_pages m;
	size_t count;
	const struct profile_process *p = largest(selection, &m, &count);
	struct words w = { 0 };

	if (!p)
		return;
	tell_fields(s, p, &m);
	describe_process(s, p, count);
	describe_reading(s, &m);
	text_format(&w, "{} of the {} on pages with live blocks, and mappings, are in no block",
		    value_bytes(m.waste_bytes), value_bytes(m.sites_bytes));
	sentences_add(s, "waste", &w, NULL);
	w = (struct words){ 0 };
	text_format(&w, "{} on pages without a live block{}", value_bytes(m.free_bytes),
		    value_text(unknown_blocks(&m) ? " that is known" : ""));
	if (m.trim_bytes)
		text_format(&w, "; malloc_trim(0) returns about {}", value_bytes(m.trim_bytes));
	sentences_add(s, "free", &w, NULL);
	describe_heaps(s, selection, p, m.heap_count);
}

static uint64_t resident_of(const struct selection *s, const struct entry *e)
{
	(void)s;
	return profile_site_pages(e->process, e->site->id).resident_bytes;
}

static uint64_t pinned_of(const struct selection *s, const struct entry *e)
{
	(void)s;
	return profile_site_pages(e->process, e->site->id).pinned_bytes;
}

static bool has_pages(const struct entry *e)
{
	return profile_site_pages(e->process, e->site->id).blocks != 0;
}

static bool pins_waste(const struct entry *e)
{
	return profile_site_pages(e->process, e->site->id).pinned_bytes != 0;
}

const struct site_view sites_pages = {
	.defaults = { COST_LIVE, MOMENT_END, KINDS_ALL },
	.columns = SITE_COLUMN_LIST(SITE_RESIDENT_BYTES, SITE_PAGES_LIVE_BYTES, SITE_PAGES_BLOCKS,
				    SITE_SOLE_BYTES, SITE_PINNED_BYTES, SITE_UNTOUCHED_BYTES,
				    SITE_SWAPPED_BYTES, SITE_HUGE_BYTES, SITE_ZERO_BYTES),
	.wanted = has_pages,
	.weight = resident_of,
	.say = describe_pages,
};

const struct site_view sites_pins = {
	.defaults = { COST_LIVE, MOMENT_END, KINDS_ALL },
	.columns = SITE_COLUMN_LIST(SITE_PINNED_BYTES, SITE_PAGES_LIVE_BYTES, SITE_PAGES_BLOCKS,
				    SITE_RESIDENT_BYTES, SITE_SOLE_BYTES, SITE_ARENA_BYTES),
	.wanted = pins_waste,
	.weight = pinned_of,
	.say = describe_pins,
};

/* ---- the map ---- */

#define MAP_COLUMN_LIST(X)                                                                         \
	X(MAP_PROCESS, "pid", "PID", UNIT_ID)                                                      \
	X(MAP_RESIDENT, "resident_bytes", "RESIDENT", UNIT_BYTES)                                  \
	X(MAP_SHARE, NULL, "SHARE", UNIT_PERCENT)                                                  \
	X(MAP_USED, "used_bytes", "USED", UNIT_BYTES)                                              \
	X(MAP_OCCUPANCY, NULL, "OCCUPANCY", UNIT_PERCENT)                                          \
	X(MAP_SIZE, "size_bytes", "SIZE", UNIT_BYTES)                                              \
	X(MAP_SWAPPED, "swapped_bytes", NULL, UNIT_BYTES)                                          \
	X(MAP_BLOCKS, "blocks", "BLOCKS", UNIT_COUNT)                                              \
	X(MAP_KIND, "kind", "KIND", UNIT_TEXT)                                                     \
	X(MAP_ADDRESS, NULL, "ADDRESS", UNIT_TEXT)                                                 \
	X(MAP_AT, "at_ns", "READ AT", UNIT_NS)                                                     \
	X(MAP_LABEL, NULL, "MOSTLY", UNIT_TEXT)                                                    \
	X(MAP_START, "start", NULL, UNIT_ID)                                                       \
	X(MAP_SITE, "site", NULL, UNIT_ID)                                                         \
	X(MAP_TILE_BYTES, "tile_bytes", NULL, UNIT_BYTES)                                          \
	X(MAP_TILES, "tiles", NULL, UNIT_FIELDS)                                                   \
	X(MAP_BLOCK_LIST, "block_list", NULL, UNIT_FIELDS)
enum map_column { MAP_COLUMN_LIST(COLUMN_ID) MAP_COLUMNS };

struct row {
	const struct profile_process *process;
	struct map_region region;
	uint64_t at_ns, tile_bytes;
	bool knows_blocks;
};

struct map_view {
	struct result *result;
	struct locations *locations;
	const struct profile *profile;
	const struct query *query;
	VECTOR(struct row) rows;
	uint64_t rss_bytes, changed_bytes, left_out_bytes, resident_bytes, heap_bytes, used_bytes;
	uint64_t tile_bytes; /* the largest */
	uint64_t hidden_blocks;
	struct profile_pages pages; /* of the last process */
	size_t processes;
};

static bool add_process(struct map_view *v, const struct profile_process *p)
{
	AUTO_FREE struct map_region *regions = NULL;
	struct profile_map map;
	struct profile_pages pages;

	if (!profile_pages(p, &pages) || !profile_map(p, &map))
		return true;
	regions = calloc(map.region_count + 1, sizeof *regions);
	if (!regions || !profile_map_regions(p, regions))
		return false;
	v->pages = pages;
	v->processes++;
	v->rss_bytes = saturating_add(v->rss_bytes, pages.rss_bytes);
	v->changed_bytes = saturating_add(v->changed_bytes, pages.changed_bytes);
	v->left_out_bytes = saturating_add(v->left_out_bytes, map.left_out_bytes);
	v->tile_bytes = MAX(v->tile_bytes, map.tile_bytes);
	v->hidden_blocks = saturating_add(v->hidden_blocks, map.knows_blocks ? 0 : map.blocks);
	for (size_t i = 0; i < map.region_count; i++) {
		const struct map_region *r = &regions[i];
		struct row row = { p, *r, pages.at_ns, map.tile_bytes, map.knows_blocks };

		v->resident_bytes = saturating_add(v->resident_bytes, r->resident_bytes);
		v->heap_bytes = saturating_add(v->heap_bytes, r->blocks ? r->resident_bytes : 0);
		v->used_bytes = saturating_add(v->used_bytes, r->blocks ? r->used_bytes : 0);
		if (!vector_push(&v->rows, row))
			return false;
	}
	return true;
}

static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->region.resident_bytes != b->region.resident_bytes)
		return a->region.resident_bytes < b->region.resident_bytes ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->region.start < b->region.start ? -1 : 1;
}

/* Fields of as many arrays, each of `count` numbers; *ret_numbers is the first, and the others follow it. */
static struct result_value arrays(struct arena *arena, const char *const *names, size_t name_count,
				  size_t count, int64_t **ret_numbers)
{
	struct result_field *fields = ARENA_ARRAY(arena, struct result_field, name_count);
	int64_t *numbers = ARENA_ARRAY(arena, int64_t, name_count * count + 1);

	*ret_numbers = numbers;
	if (!fields || !numbers)
		return value_unknown();
	for (size_t i = 0; i < name_count; i++)
		fields[i] = (struct result_field){
			names[i],
			{ .unit = UNIT_SERIES, .numbers = { numbers + i * count, count, NULL } }
		};
	return (struct result_value){ .unit = UNIT_FIELDS, .fields = { fields, name_count } };
}

static struct result_value tiles_value(struct arena *arena, const struct row *row)
{
	static const char *const names[] = { "offset",	   "resident_bytes", "swapped_bytes",
					     "used_bytes", "site",	     "age_ms" };
	const struct map_region *r = &row->region;
	int64_t *to;
	struct result_value value = arrays(arena, names, ARRAY_SIZE(names), r->tiles, &to);

	for (size_t i = 0; to && i < r->tiles; i++, to++) {
		struct map_tile c = profile_map_tile(row->process, r->first_tile + i);

		to[0] = (int64_t)(c.start - r->start);
		to[r->tiles] = (int64_t)c.resident_bytes;
		to[2 * r->tiles] = (int64_t)c.swapped_bytes;
		to[3 * r->tiles] = (int64_t)c.used_bytes;
		to[4 * r->tiles] = c.site;
		to[5 * r->tiles] = c.age_ms;
	}
	return value;
}

static struct result_value blocks_value(struct arena *arena, const struct row *row)
{
	static const char *const names[] = { "offset", "bytes", "site", "age_ms" };
	const struct map_region *r = &row->region;
	int64_t *to;

	if (!row->knows_blocks)
		return value_unknown();
	struct result_value value = arrays(arena, names, ARRAY_SIZE(names), r->blocks, &to);

	for (size_t i = 0; to && i < r->blocks; i++, to++) {
		struct map_block b = profile_map_block(row->process, r->first_block + i);

		to[0] = (int64_t)(b.start - r->start);
		to[r->blocks] = (int64_t)b.size_bytes;
		to[2 * r->blocks] = b.site;
		to[3 * r->blocks] = b.age_ms;
	}
	return value;
}

static const char *label_of(struct map_view *v, const struct row *row)
{
	const struct profile_site *site =
		row->region.site ? profile_find_site(row->process, row->region.site) : NULL;

	return site ? stack_label(v->result, v->locations, row->process, site->node) : "";
}

static bool fill_row(void *context, size_t index, struct result_value *to)
{
	struct map_view *v = context;
	const struct row *row = &v->rows.at[index];
	const struct map_region *r = &row->region;
	struct arena *arena = &v->result->arena;

	to[MAP_PROCESS] = value_id(row->process->pid);
	to[MAP_RESIDENT] = value_bytes(r->resident_bytes);
	to[MAP_SHARE] = value_percent(r->resident_bytes, v->rss_bytes);
	to[MAP_USED] = r->blocks || r->used_bytes ? value_bytes(r->used_bytes) : value_unknown();
	to[MAP_OCCUPANCY] = r->blocks || r->used_bytes
				    ? value_percent(r->used_bytes, r->resident_bytes)
				    : value_unknown();
	to[MAP_SIZE] = value_bytes(r->size_bytes);
	to[MAP_SWAPPED] = value_bytes(r->swapped_bytes);
	to[MAP_BLOCKS] = value_count(r->blocks);
	to[MAP_KIND] = value_text(r->kind);
	to[MAP_ADDRESS] = value_text(arena_printf(arena, "0x%" PRIx64, r->start));
	to[MAP_AT] = value_ns(row->at_ns);
	to[MAP_LABEL] = value_text(label_of(v, row));
	to[MAP_START] = value_id(r->start);
	to[MAP_SITE] = r->site ? value_id(r->site) : value_unknown();
	to[MAP_TILE_BYTES] = value_bytes(row->tile_bytes);
	to[MAP_TILES] = tiles_value(arena, row);
	to[MAP_BLOCK_LIST] = blocks_value(arena, row);
	return to[MAP_ADDRESS].text && to[MAP_LABEL].text && to[MAP_TILES].unit == UNIT_FIELDS &&
	       (!row->knows_blocks || to[MAP_BLOCK_LIST].unit == UNIT_FIELDS);
}

static bool fill_table(struct map_view *v)
{
	struct result_column columns[] = { MAP_COLUMN_LIST(COLUMN_ROW) };
	size_t shown = MIN(v->rows.count, v->query->limit);

	if (v->profile->process_count == 1)
		columns[MAP_PROCESS].title = NULL;
	if (v->processes == 1)
		columns[MAP_AT].title = NULL;
	return result_fill(v->result, "regions", columns, MAP_COLUMNS, shown, fill_row, v) &&
	       result_left_out(v->result, v->rows.count - shown, " more region", " more regions");
}

static bool say(struct map_view *v)
{
	struct sentences sentences = { .result = v->result };
	struct words headline = { 0 }, used = { 0 }, blocks = { 0 };

	words_headline(&headline, v->result, v->profile);
	text_format(&headline, "{} resident in ", value_bytes(v->resident_bytes));
	words_count(&headline, v->rows.count, " region", " regions");
	sentences_add(&sentences, NULL, &headline, NULL);
	if (v->processes == 1)
		describe_reading(&sentences, &v->pages);
	if (v->heap_bytes) {
		text_format(&used, "{} of the {} in regions with blocks",
			    value_bytes(v->used_bytes), value_bytes(v->heap_bytes));
		sentences_add(&sentences, "used", &used, NULL);
	}
	if (v->hidden_blocks) {
		words_count(&blocks, v->hidden_blocks, " block", " blocks");
		text_format(&blocks, " are too many to list: the map ends at tiles of {}",
			    value_bytes(v->tile_bytes));
		sentences_add(&sentences, "blocks", &blocks, NULL);
	}
	return sentences_end(&sentences);
}

struct result *analyse_map(const struct profile *profile, struct locations *locations,
			   const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct map_view v = { .profile = profile, .locations = locations, .query = query };
	const bool *wanted = processes_choose(profile, query, &scratch, error);
	bool done = true;

	if (!wanted)
		return NULL;
	v.result = result_begin("map", profile, query, 4);
	for (size_t i = 0; v.result && done && i < profile->process_count; i++)
		if (wanted[i])
			done = add_process(&v, &profile->processes[i]);
	if (v.rows.count)
		qsort(v.rows.at, v.rows.count, sizeof *v.rows.at, compare_rows);
	if (v.result) {
		result_head_add(v.result, "rss_bytes", value_bytes(v.rss_bytes));
		result_head_add(v.result, "resident_bytes", value_bytes(v.resident_bytes));
		result_head_add(v.result, "left_out_bytes", value_bytes(v.left_out_bytes));
		result_head_add(v.result, "changed_bytes", value_bytes(v.changed_bytes));
	}
	done = v.result && done && fill_table(&v) && say(&v) &&
	       result_notes(v.result, profile, locations, NULL);
	vector_release(&v.rows);
	return result_end(v.result, done, error);
}
