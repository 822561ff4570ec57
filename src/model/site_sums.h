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

/* One cell's; closed: none of its thread's blocks were freed by others, and it freed none of theirs. */
struct cell_row;
struct site_numbers site_numbers_of_cell(const struct profile_process *process, site_id site,
					 enum profile_kind kind, const struct cell_row *cell,
					 bool closed);

/* What is live in a cell by the blocks that it allocated, as the block map has them. */
struct cell_live {
	uint64_t blocks, bytes;
	bool known;
};

/* The numbers of each part of a site (model/same_sites.h), by the site id of the rows; NULL: it has none. In the arena; -1 if out
 * of memory. */
int site_parts(const struct profile_process *process, struct arena *arena,
	       const struct site_numbers ***ret);

#endif
