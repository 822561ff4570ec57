/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over blocks. Sites of blocks are those of the live profile, which the rows of a recording number alike; what is of a site beyond
 * them, which an untrusted profile may have, is left out at the end.
 *
 * Owned by one thread.
 */
#include "collect/image/reach_rows.h"

#include <stdlib.h>
#include <string.h>

#include "collect/image/paths.h"
#include "util/cleanup.h"
#include "util/huge_pages.h"
#include "util/numbering.h"

enum { HOLDERS_MAX = 1000, PATHS_MAX = 1000 };

struct class_sums {
	uint64_t blocks, bytes, interior;
};

/* Everything by site that the rows are made of. */
struct sums {
	size_t site_count;
	struct class_sums *classes; /* [site * REACH_CLASSES + class] */
	uint64_t *retained;	    /* by site */
	uint64_t *most;		    /* by site: what its block that retains most does */
	uint32_t *most_block;
};

static void sums_release(struct sums *sums)
{
	free(sums->classes);
	free(sums->retained);
	free(sums->most);
	free(sums->most_block);
}

static bool sums_init(struct sums *sums, size_t site_count)
{
	sums->site_count = site_count;
	sums->classes = calloc((site_count + 1) * REACH_CLASSES, sizeof *sums->classes);
	sums->retained = calloc(site_count + 1, sizeof *sums->retained);
	sums->most = calloc(site_count + 1, sizeof *sums->most);
	sums->most_block = malloc((site_count + 1) * sizeof *sums->most_block);
	if (!sums->classes || !sums->retained || !sums->most || !sums->most_block)
		return false;
	memset(sums->most_block, 0xff, (site_count + 1) * sizeof *sums->most_block);
	return true;
}

static void add_blocks(struct sums *sums, const struct live_blocks *blocks,
		       const struct graph_reach *reach, const uint64_t *retained)
{
	for (size_t i = 0; i < blocks->list.count; i++) {
		const struct live_block *block = &blocks->list.at[i];

		if (block->site >= sums->site_count)
			continue;
		struct class_sums *class =
			&sums->classes[block->site * REACH_CLASSES + reach->class[i]];

		class->blocks++;
		class->bytes += block->size_bytes;
		class->interior += reach->is_interior[i];
		if (reach_is_unreachable(reach->class[i]))
			continue;
		if (sums->most_block[block->site] == GRAPH_NONE ||
		    retained[i] > sums->most[block->site]) {
			sums->most[block->site] = retained[i];
			sums->most_block[block->site] = (uint32_t)i;
		}
	}
}

static int put_sites(const struct sums *sums, struct image_rows *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < sums->site_count * REACH_CLASSES; i++)
		count += sums->classes[i].blocks > 0;
	rows->reach_sites = calloc(count + 1, sizeof *rows->reach_sites);
	for (size_t i = 0; rows->reach_sites && i < sums->site_count * REACH_CLASSES; i++) {
		const struct class_sums *sum = &sums->classes[i];

		if (sum->blocks > 0)
			rows->reach_sites[rows->reach_site_count++] =
				(struct reach_site_row){ (uint32_t)(i / REACH_CLASSES),
							 (uint32_t)(i % REACH_CLASSES), sum->blocks,
							 sum->bytes, sum->interior };
	}
	return rows->reach_sites ? 0 : -1;
}

/* ---- roots ---- */

struct ranked {
	uint32_t holder;
	uint64_t bytes, blocks;
};

static int compare_ranked(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->holder < b->holder ? -1 : a->holder > b->holder;
}

/* Keeps the roots that retain most. bytes: by node; blocks: by root group; row_of: by root group, 1 + its row, 0 = none. */
static int put_holders(const struct references *r, const uint64_t *bytes, const uint64_t *blocks,
		       uint32_t *row_of, struct image_rows *rows)
{
	size_t count = r->holders.count, kept = MIN(count, (size_t)HOLDERS_MAX);
	AUTO_FREE struct ranked *ranked = calloc(count + 1, sizeof *ranked);

	rows->holders = calloc(kept + 1, sizeof *rows->holders);
	if (!ranked || !rows->holders)
		return -1;
	for (size_t i = 0; i < count; i++)
		ranked[i] =
			(struct ranked){ (uint32_t)i, bytes[r->graph.block_count + i], blocks[i] };
	qsort(ranked, count, sizeof *ranked, compare_ranked);
	for (size_t i = 0; i < kept; i++) {
		const struct holder *holder = &r->holders.at[ranked[i].holder];
		struct holder_row *row = &rows->holders[rows->holder_count];

		*row = (struct holder_row){ holder->class, ranked[i].blocks, ranked[i].bytes,
					    strdup(holder->name ? holder->name : "") };
		if (!row->name)
			return -1;
		row_of[ranked[i].holder] = (uint32_t)++rows->holder_count;
	}
	return 0;
}

/* ---- retained bytes and paths ---- */

static void add_path_row(const struct references *r, const struct live_blocks *blocks,
			 const struct path_step *step, uint32_t site, struct image_rows *rows)
{
	struct path_row row = { .site = site, .blocks = 1 };
	struct path_row *last = rows->path_count ? &rows->paths[rows->path_count - 1] : NULL;

	if (step->from == GRAPH_NONE) {
		row.blocks = step->to;
	} else {
		row.from = blocks->list.at[step->from].site;
		row.type = r->type_of ? r->type_of[step->from] : 0;
		row.offset = step->offset == PATH_NO_OFFSET ? 0 : step->offset + 1;
	}
	if (last && row.from && last->site == site && last->from == row.from &&
	    last->type == row.type && last->offset == row.offset)
		last->blocks++;
	else
		rows->paths[rows->path_count++] = row;
}

/* Each site's number in `retained` whose path is looked for, by site. Returns how many. */
static size_t choose_paths(const struct sums *sums, const struct image_rows *rows,
			   struct ranked *ranked)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->retained_count; i++)
		if (sums->most_block[rows->retained[i].site] != GRAPH_NONE)
			ranked[count++] =
				(struct ranked){ (uint32_t)i, rows->retained[i].bytes, 0 };
	qsort(ranked, count, sizeof *ranked, compare_ranked);
	count = MIN(count, (size_t)PATHS_MAX);
	for (size_t i = 0; i < count; i++)
		ranked[i].bytes = 0;
	qsort(ranked, count, sizeof *ranked, compare_ranked);
	return count;
}

static int put_paths(const struct sums *sums, struct paths *paths, struct scanner *scanner,
		     const struct live_blocks *blocks, struct image_rows *rows)
{
	AUTO_FREE struct ranked *chosen = calloc(rows->retained_count + 1, sizeof *chosen);
	size_t count = chosen ? choose_paths(sums, rows, chosen) : 0;

	if (!chosen)
		return -1;
	paths->walked = 0; /* the roots of all other sites must not use up what these need */
	for (size_t i = 0; i < count; i++)
		if (!paths_add(paths, sums->most_block[rows->retained[chosen[i].holder].site]))
			return -1;
	rows->paths = calloc(paths->steps.count + 1, sizeof *rows->paths);
	if (!rows->paths || !paths_find_offsets(paths, scanner, blocks))
		return -1;
	for (size_t i = 0; i < count; i++) {
		struct retained_row *row = &rows->retained[chosen[i].holder];
		const struct path *path = &paths->list.at[i];
		const struct path_step *steps = paths->steps.at + path->first;

		if (path->count > 0 && steps[0].offset != PATH_NO_OFFSET)
			row->offset = steps[0].offset + 1;
		for (size_t k = 1; k < path->count; k++)
			add_path_row(paths->references, blocks, &steps[k], row->site, rows);
	}
	return 0;
}

static int put_retained(const struct sums *sums, struct paths *paths, const uint32_t *row_of,
			struct image_rows *rows)
{
	rows->retained = calloc(sums->site_count + 1, sizeof *rows->retained);
	if (!rows->retained)
		return -1;
	for (size_t i = 0; i < sums->site_count; i++) {
		uint32_t block = sums->most_block[i];

		if (sums->retained[i] == 0)
			continue;
		uint32_t root = block == GRAPH_NONE ? GRAPH_NONE : paths_root(paths, block);

		rows->retained[rows->retained_count++] =
			(struct retained_row){ .site = (uint32_t)i,
					       .holder = root == GRAPH_NONE ? 0 : row_of[root],
					       .bytes = sums->retained[i] };
	}
	return 0;
}

/* ---- types ---- */

static int compare_site_types(const void *left, const void *right)
{
	const struct site_type_row *a = left, *b = right;

	if (a->site != b->site)
		return a->site < b->site ? -1 : 1;
	return a->type < b->type ? -1 : a->type > b->type;
}

static bool add_site_types(const struct references *r, const struct live_blocks *blocks,
			   const struct graph_reach *reach, struct image_rows *rows)
{
	AUTO(numbering_release) struct numbering pairs = { 0 };
	VECTOR(struct site_type_row) list = { 0 };

	for (size_t i = 0; i < blocks->list.count; i++) {
		const struct live_block *block = &blocks->list.at[i];
		struct site_type_row row = { .site = block->site, .type = r->type_of[i] };

		if (row.type-- == 0)
			continue;
		size_t at = number_of(&pairs, (uint64_t)row.site << 32 | row.type);

		if (at == SIZE_MAX || (at == list.count && !vector_push(&list, row)) || !list.at) {
			vector_release(&list);
			return false;
		}
		list.at[at].blocks++;
		list.at[at].bytes += block->size_bytes;
		if (reach_is_unreachable(reach->class[i]))
			list.at[at].unreachable_bytes += block->size_bytes;
	}
	if (list.count > 0)
		qsort(list.at, list.count, sizeof *list.at, compare_site_types);
	rows->site_types = list.at;
	rows->site_type_count = list.count;
	return true;
}

static uint32_t type_group(const void *context, uint32_t block)
{
	return ((const struct references *)context)->type_of[block];
}

static bool put_types(const struct references *r, const struct live_blocks *blocks,
		      const struct graph_reach *reach, const uint32_t *dominators,
		      const uint64_t *retained, struct image_rows *rows)
{
	size_t count = r->type_of ? r->vtables.names.count : 0;
	AUTO_FREE uint64_t *sums = calloc(count + 1, sizeof *sums);

	rows->types = calloc(count + 1, sizeof *rows->types);
	if (!sums || !rows->types)
		return false;
	if (count == 0)
		return true;
	if (!add_site_types(r, blocks, reach, rows) ||
	    !graph_retained_by_group(&r->graph, dominators, retained, type_group, r,
				     (uint32_t)count + 1, sums))
		return false;
	for (; rows->type_count < count; rows->type_count++) {
		struct reach_type_row *row = &rows->types[rows->type_count];

		*row = (struct reach_type_row){ sums[rows->type_count + 1],
						strdup(r->vtables.names.at[rows->type_count]) };
		if (!row->name)
			return false;
	}
	return true;
}

/* ---- all of it ---- */

static uint32_t site_group(const void *context, uint32_t block)
{
	const struct live_blocks *blocks = context;

	return MIN(blocks->list.at[block].site, blocks->site_count);
}

/* Everything that needs dominators. weights: by node, zero; at last the retained bytes. root_blocks: by root group. */
static bool sum_retained(const struct references *r, const struct live_blocks *blocks,
			 const struct graph_reach *reach, uint64_t *weights, uint64_t *root_blocks,
			 struct sums *sums, struct image_rows *rows)
{
	const struct graph *g = &r->graph;
	AUTO_FREE uint32_t *dominators = graph_dominators(g);

	if (!dominators)
		return false;
	for (size_t i = 0; i < g->block_count; i++)
		weights[i] = 1;
	if (!graph_retained(g, dominators, weights))
		return false;
	memcpy(root_blocks, weights + g->block_count, r->holders.count * sizeof *root_blocks);
	memset(weights + g->block_count, 0, r->holders.count * sizeof *weights);
	for (size_t i = 0; i < g->block_count; i++)
		weights[i] = blocks->list.at[i].size_bytes;
	return graph_retained(g, dominators, weights) &&
	       graph_retained_by_group(g, dominators, weights, site_group, blocks,
				       (uint32_t)sums->site_count + 1, sums->retained) &&
	       put_types(r, blocks, reach, dominators, weights, rows);
}

static void put_totals(const struct references *r, const struct live_blocks *blocks,
		       struct image_rows *rows)
{
	struct reach_row *row = rows->reach;

	rows->reach_count = 1;
	row->blocks = blocks->list.count;
	for (size_t i = 0; i < blocks->list.count; i++)
		row->bytes += blocks->list.at[i].size_bytes;
	row->references = r->to.count;
	row->heap_read_bytes = r->heap_read_bytes;
	row->root_read_bytes = r->root_read_bytes;
	row->unreadable_bytes = r->unreadable_bytes;
}

/* sums and reach: empty, to be released by the caller. */
static bool make_rows(const struct references *r, const struct live_blocks *blocks,
		      struct scanner *scanner, struct sums *sums, struct graph_reach *reach,
		      struct image_rows *rows)
{
	AUTO(paths_release) struct paths paths = { .references = r, .reach = reach };
	AUTO_FREE uint64_t *weights = NULL;
	AUTO_FREE uint64_t *root_blocks = calloc(r->holders.count + 1, sizeof *root_blocks);
	AUTO_FREE uint32_t *row_of = calloc(r->holders.count + 1, sizeof *row_of);

	rows->reach = calloc(1, sizeof *rows->reach);
	if (!root_blocks || !row_of || !rows->reach || !sums_init(sums, blocks->site_count) ||
	    !graph_reach(&r->graph, reach))
		return false;
	weights = huge_calloc((size_t)r->graph.node_count + 1, sizeof *weights);
	if (!weights || !sum_retained(r, blocks, reach, weights, root_blocks, sums, rows))
		return false;
	put_totals(r, blocks, rows);
	add_blocks(sums, blocks, reach, weights);
	return put_sites(sums, rows) == 0 &&
	       put_holders(r, weights, root_blocks, row_of, rows) == 0 &&
	       put_retained(sums, &paths, row_of, rows) == 0 &&
	       put_paths(sums, &paths, scanner, blocks, rows) == 0;
}

int reach_rows_make(const struct references *r, const struct live_blocks *blocks,
		    struct scanner *scanner, struct image_rows *ret, struct error *error)
{
	AUTO(graph_reach_release) struct graph_reach reach = { 0 };
	AUTO(sums_release) struct sums sums = { 0 };

	*ret = (struct image_rows){ 0 };
	if (make_rows(r, blocks, scanner, &sums, &reach, ret))
		return 0;
	return error_set(error, "out of memory for what %zu blocks retain", blocks->list.count);
}

/* All tables are sorted by site. */
#define CUT(rows, count, sites)                                                                    \
	while ((count) > 0 && (rows)[(count)-1].site >= (sites))                                   \
	(count)--

void reach_rows_put(struct image_rows *image, struct process_rows *rows)
{
	uint64_t live = saturating_sub(rows->process.calls, rows->process.frees);
	struct reach_row *row = image->reach;

	row->in_flight = live > row->blocks ? live - row->blocks : row->blocks - live;
	CUT(image->reach_sites, image->reach_site_count, rows->site_count);
	CUT(image->retained, image->retained_count, rows->site_count);
	CUT(image->paths, image->path_count, rows->site_count);
	CUT(image->site_types, image->site_type_count, rows->site_count);
	for (size_t i = 0; i < image->path_count; i++)
		if (image->paths[i].from >= rows->site_count)
			image->paths[i].from = 0;
	rows->image = *image;
	*image = (struct image_rows){ 0 };
}
