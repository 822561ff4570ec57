/* SPDX-License-Identifier: Apache-2.0 */
/* Builds sites with their sums from site counters. Used by the model only. */
#ifndef MODEL_SITE_SUMS_H
#define MODEL_SITE_SUMS_H

#include "model/profile.h"

/*
 * Fills sites, counters_of, counters_order and stacks of a process whose rows were checked. -1 if out of
 * memory.
 */
int site_sums_build(struct profile_process *process, struct arena *arena);

/* The numbers of one slot; closed: its thread freed no blocks of other threads, and they freed none of its blocks. */
struct site_counters_row;
struct site_numbers site_numbers_of_counters(const struct profile_process *process, site_id site,
					     enum profile_kind kind,
					     const struct site_counters_row *counters, bool closed);

/* The live blocks that a slot allocated at a site, from the block map. */
struct counters_live {
	uint64_t blocks, bytes;
	bool known;
};

/* The numbers of each part of a site (model/same_sites.h), by site id of the rows; NULL: unused. In the arena; -1 if out of
 * memory. */
int site_parts(const struct profile_process *process, struct arena *arena,
	       const struct site_numbers ***ret);

#endif
