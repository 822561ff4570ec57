/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clone of a target that is encoded while the original continues: copies everything that its rows are made of, except the
 * profile, for which the caller provides a twin or a copy.
 *
 * Runs in the loop's thread, while no worker owns the target. The clone belongs to the caller, then to the encoder.
 */
#include <stdlib.h>
#include <string.h>

#include "collect/process/target.h"

/* Copies the items of a vector; false if out of memory. */
#define COPY_VECTOR(to, from)                                                                      \
	__extension__({                                                                            \
		bool copied_ = (from)->count == 0 || vector_reserve((to), (from)->count);          \
		if (copied_ && (from)->count > 0) {                                                \
			memcpy((to)->at, (from)->at, (from)->count * sizeof *(from)->at);          \
			(to)->count = (from)->count;                                               \
		}                                                                                  \
		copied_;                                                                           \
	})

static bool copy_marks(struct target *to, const struct target *from)
{
	if (!COPY_VECTOR(&to->marks, &from->marks))
		return false;
	to->marks.count = 0;
	for (size_t i = 0; i < from->marks.count; i++) {
		to->marks.at[i].name = strdup(from->marks.at[i].name);
		if (!to->marks.at[i].name)
			return false;
		to->marks.count++;
	}
	return true;
}

static bool copy_known(struct target *to, const struct target *from)
{
	const struct process_row *known = &from->known;

	to->known = *known;
	to->known.command = known->command ? strdup(known->command) : NULL;
	to->known.exe = known->exe ? strdup(known->exe) : NULL;
	return (to->known.command || !known->command) && (to->known.exe || !known->exe);
}

/* False: out of memory. *ret is NULL if there are no rows. */
static bool copy_rows(void *ret, size_t *ret_count, const void *from, size_t count, size_t bytes)
{
	void *copy = count ? reallocarray(NULL, count, bytes) : NULL;

	if (count && !copy)
		return false;
	if (count)
		memcpy(copy, from, count * bytes);
	memcpy(ret, &copy, sizeof copy);
	*ret_count = count;
	return true;
}
#define COPY_ROWS(to, from, rows, count)                                                           \
	copy_rows(&(to)->rows, &(to)->count, (from)->rows, (from)->count, sizeof *(to)->rows)

static bool copy_pages(struct pages_rows *to, const struct pages_rows *from)
{
	return COPY_ROWS(to, from, sums, sum_count) && COPY_ROWS(to, from, sites, site_count) &&
	       COPY_ROWS(to, from, heaps, heap_count) && COPY_ROWS(to, from, map, map_count) &&
	       COPY_ROWS(to, from, regions, region_count) &&
	       COPY_ROWS(to, from, tiles, tile_count) && COPY_ROWS(to, from, blocks, block_count);
}

struct target *target_clone(const struct target *target)
{
	struct target *clone = calloc(1, sizeof *clone);

	if (!clone)
		return NULL;
	clone->id = target->id;
	clone->pid = target->pid;
	clone->pid_fd = clone->statm_fd = -1;
	clone->profile = LIVE_PROFILE_INIT;
	clone->started_ns = target->started_ns;
	clone->totals = target->totals;
	clone->peak_rss_bytes = target->peak_rss_bytes;
	clone->peak_file_bytes = target->peak_file_bytes;
	clone->stopped_ms = target->stopped_ms;
	clone->marks_read = target->marks_read;
	clone->memories.flow = target->memories.flow;
	if (!copy_known(clone, target) || !copy_marks(clone, target) ||
	    !COPY_VECTOR(&clone->series.points, &target->series.points) ||
	    !COPY_VECTOR(&clone->snapshots.rows, &target->snapshots.rows) ||
	    !COPY_VECTOR(&clone->snapshots.sites, &target->snapshots.sites) ||
	    !COPY_VECTOR(&clone->snapshots.counts, &target->snapshots.counts) ||
	    !COPY_VECTOR(&clone->size_moments, &target->size_moments) ||
	    !COPY_VECTOR(&clone->memories.rows, &target->memories.rows) ||
	    !COPY_VECTOR(&clone->threads, &target->threads) ||
	    !copy_pages(&clone->pages, &target->pages) ||
	    !loaded_copy(&clone->loaded, &target->loaded) ||
	    !static_data_copy(&clone->static_data, &target->static_data)) {
		target_free(clone);
		return NULL;
	}
	return clone;
}
