/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks of a recording: a writer and a reader for each, side by side in chunk_*.c; recording.c has the table. A reader
 * checks every id against the tables read before, and fills only zero fields of the rows. On invalid bytes it fails the
 * source's cursor; its caller then releases the filled fields.
 */
#ifndef FORMAT_RECORDING_CHUNKS_H
#define FORMAT_RECORDING_CHUNKS_H

#include "format/recording/columns.h"
#include "format/recording/recording.h"

typedef void chunk_put(struct payload *out, const struct process_rows *rows);
typedef void chunk_get(struct source *in, struct process_rows *rows);

void chunk_run_put(struct payload *out, const struct run_row *run);
void chunk_run_get(struct source *in, struct run_row *run);

chunk_put chunk_process_put, chunk_modules_put, chunk_frames_put, chunk_nodes_put, chunk_tags_put,
	chunk_sites_put, chunk_site_counters_put, chunk_ages_put, chunk_threads_put,
	chunk_remote_frees_put, chunk_series_put, chunk_snapshots_put, chunk_memory_put,
	chunk_marks_put, chunk_unrecorded_put, chunk_static_put, chunk_pages_put, chunk_pairs_put,
	chunk_reach_put, chunk_page_map_put, chunk_names_put;
chunk_get chunk_process_get, chunk_modules_get, chunk_frames_get, chunk_nodes_get, chunk_tags_get,
	chunk_sites_get, chunk_site_counters_get, chunk_ages_get, chunk_threads_get,
	chunk_remote_frees_get, chunk_series_get, chunk_snapshots_get, chunk_memory_get,
	chunk_marks_get, chunk_unrecorded_get, chunk_static_get, chunk_pages_get, chunk_pairs_get,
	chunk_reach_get, chunk_page_map_get, chunk_names_get;

/* Residuals to a prediction: exact for every pair of numbers, short if the prediction is close. */
uint64_t residual_put(uint64_t value, uint64_t predicted);
uint64_t residual_get(uint64_t residual, uint64_t predicted);

/* The mean size of a block, rounded down. */
static inline uint64_t site_counters_mean_size(const struct site_counters_row *row)
{
	return row->calls ? row->bytes / row->calls : 0;
}

#endif
