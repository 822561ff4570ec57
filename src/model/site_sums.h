/* SPDX-License-Identifier: Apache-2.0 */
/* Site counters -> sites with their sums. Used by the model only. */
#ifndef MODEL_SITE_SUMS_H
#define MODEL_SITE_SUMS_H

#include "model/profile.h"

/*
 * Fills sites, counters_of, counters_order and stacks of a process whose rows were checked. -1 if out of
 * memory.
 */
int site_sums_build(struct profile_process *process, struct arena *arena);

/* Those of one slot; closed: none of its thread's blocks were freed by others, and it freed none of theirs. */
struct site_counters_row;
struct site_numbers site_numbers_of_counters(const struct profile_process *process, site_id site,
					     enum profile_kind kind,
					     const struct site_counters_row *counters, bool closed);

/* What is live by the blocks that a slot allocated at a site, as the block map has them. */
struct counters_live {
	uint64_t blocks, bytes;
	bool known;
};

/* The numbers of each part of a site (model/same_sites.h), by the site id of the rows; NULL: it has none. In the arena; -1 if out
 * of memory. */
int site_parts(const struct profile_process *process, struct arena *arena,
	       const struct site_numbers ***ret);

#endif
