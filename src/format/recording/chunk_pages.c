/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the resident pages of a process were at one moment. Present only if they were asked for. Pure functions; any thread.
 */
#include <stdlib.h>

#include "format/recording/chunks.h"

void pages_rows_release(struct pages_rows *pages)
{
	free(pages->sums);
	free(pages->sites);
	free(pages->heaps);
	free(pages->map);
	free(pages->regions);
	free(pages->tiles);
	free(pages->blocks);
	*pages = (struct pages_rows){ 0 };
}

/* doc: chunk_pages */
void chunk_pages_put(struct payload *out, const struct process_rows *rows)
{
	const struct pages_rows *pages = &rows->pages;

	table_put(out, U64_SHAPE(struct pages_row, sizeof(struct pages_row)), pages->sums,
		  pages->sum_count);
	table_put(out, U64_SHAPE(struct site_pages_row, sizeof(struct site_pages_row)),
		  pages->sites, pages->site_count);
	table_put(out, U64_SHAPE(struct heap_row, sizeof(struct heap_row)), pages->heaps,
		  pages->heap_count);
}

/* Sites ascend, so that none occurs twice. */
static bool are_sites(const struct site_pages_row *sites, size_t count, size_t site_count)
{
	for (size_t i = 0; i < count; i++)
		if (sites[i].site >= site_count || sites[i].site <= (i > 0 ? sites[i - 1].site : 0))
			return false;
	return true;
}

static bool are_heaps(const struct heap_row *heaps, size_t count, size_t site_count)
{
	for (size_t i = 0; i < count; i++)
		if (heaps[i].holder_site >= site_count)
			return false;
	return count <= PAGES_HEAPS_MAX;
}

void chunk_pages_get(struct source *in, struct process_rows *rows)
{
	struct pages_rows *pages = &rows->pages;

	pages->sums = table_get(in, U64_SHAPE(struct pages_row, sizeof(struct pages_row)),
				&pages->sum_count);
	pages->sites =
		table_get(in, U64_SHAPE(struct site_pages_row, sizeof(struct site_pages_row)),
			  &pages->site_count);
	pages->heaps = table_get(in, U64_SHAPE(struct heap_row, sizeof(struct heap_row)),
				 &pages->heap_count);
	if (pages->sum_count != 1 ||
	    !are_sites(pages->sites, pages->site_count, rows->site_count) ||
	    !are_heaps(pages->heaps, pages->heap_count, rows->site_count))
		cursor_fail(&in->cursor);
}
