/* SPDX-License-Identifier: Apache-2.0 */
/* Cells -> sites with their sums. Used by the model only. */
#ifndef MODEL_SITE_SUMS_H
#define MODEL_SITE_SUMS_H

#include "model/profile.h"

/*
 * Fills sites, cells_of, cell_order and stacks of a process whose rows were checked. -1 if out of
 * memory.
 */
int site_sums_build(struct profile_process *process, struct arena *arena);

/* Adds one cell's counters; what is live and at the peak is left to the caller, who knows the other
 * cells. */
struct cell_row;
void site_numbers_add(struct site_numbers *numbers, const struct cell_row *cell);

/* One cell's; closed: none of its thread's blocks were freed by others, and it freed none of theirs. */
struct site_numbers site_numbers_of_cell(const struct profile_process *process, site_id site,
					 enum profile_kind kind, const struct cell_row *cell,
					 bool closed);

/* What is live in a cell by the blocks that it allocated, as the block map has them. */
struct cell_live {
	uint64_t blocks, bytes;
	bool known;
};

/* The variances at the peak, when all cells have been added and the peak is there. */
void site_numbers_peak(struct site_numbers *numbers);

#endif
