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

/* The variances at the peak, when all cells have been added and the peak is there. */
void site_numbers_peak(struct site_numbers *numbers);

#endif
