/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks of a recording: for each a writer and a reader, side by side in chunk_*.c; recording.c has the table.
 * A reader checks every id against the tables that were read before it. If the bytes are wrong it fails the source's
 * cursor and leaves the rows as they were, without its own table.
 */
#ifndef FORMAT_RECORDING_CHUNKS_H
#define FORMAT_RECORDING_CHUNKS_H

#include "format/recording/columns.h"
#include "format/recording/recording.h"

void chunk_run_put(struct payload *out, const struct run_row *run);
void chunk_run_get(struct source *in, struct run_row *run);

void chunk_process_put(struct payload *out, const struct process_rows *rows);
void chunk_process_get(struct source *in, struct process_rows *rows);

void chunk_modules_put(struct payload *out, const struct process_rows *rows);
void chunk_modules_get(struct source *in, struct process_rows *rows);
void chunk_frames_put(struct payload *out, const struct process_rows *rows);
void chunk_frames_get(struct source *in, struct process_rows *rows);
void chunk_nodes_put(struct payload *out, const struct process_rows *rows);
void chunk_nodes_get(struct source *in, struct process_rows *rows);
void chunk_tags_put(struct payload *out, const struct process_rows *rows);
void chunk_tags_get(struct source *in, struct process_rows *rows);
void chunk_sites_put(struct payload *out, const struct process_rows *rows);
void chunk_sites_get(struct source *in, struct process_rows *rows);

void chunk_cells_put(struct payload *out, const struct process_rows *rows);
void chunk_cells_get(struct source *in, struct process_rows *rows);
void chunk_ages_put(struct payload *out, const struct process_rows *rows);
void chunk_ages_get(struct source *in, struct process_rows *rows);

void chunk_threads_put(struct payload *out, const struct process_rows *rows);
void chunk_threads_get(struct source *in, struct process_rows *rows);
void chunk_foreign_put(struct payload *out, const struct process_rows *rows);
void chunk_foreign_get(struct source *in, struct process_rows *rows);

void chunk_series_put(struct payload *out, const struct process_rows *rows);
void chunk_series_get(struct source *in, struct process_rows *rows);
void chunk_snapshots_put(struct payload *out, const struct process_rows *rows);
void chunk_snapshots_get(struct source *in, struct process_rows *rows);
void chunk_memory_put(struct payload *out, const struct process_rows *rows);
void chunk_memory_get(struct source *in, struct process_rows *rows);

void chunk_marks_put(struct payload *out, const struct process_rows *rows);
void chunk_marks_get(struct source *in, struct process_rows *rows);
void chunk_unseen_put(struct payload *out, const struct process_rows *rows);
void chunk_unseen_get(struct source *in, struct process_rows *rows);
void chunk_names_put(struct payload *out, const struct process_rows *rows);
void chunk_names_get(struct source *in, struct process_rows *rows);

/* Differences to a prediction: exact for every pair of numbers, short when the prediction is near. */
uint64_t residual_put(uint64_t value, uint64_t predicted);
uint64_t residual_get(uint64_t residual, uint64_t predicted);

/* The bytes of a block of the cell, as far as one number can tell. */
static inline uint64_t cell_mean_size(const struct cell_row *cell)
{
	return cell->calls ? cell->bytes / cell->calls : 0;
}

#endif
