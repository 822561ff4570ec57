/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory balance sheet at one time: the parts of a process' resident anonymous memory, computed for each mapping from
 * smaps, the recorded blocks and the recorded mappings. No part absorbs a remainder: memory that nothing recorded explains is
 * "unrecorded".
 */
#ifndef COLLECT_PROCESS_SHEET_H
#define COLLECT_PROCESS_SHEET_H

#include "collect/profile/block_map.h"
#include "collect/kernel/smaps.h"

/* The memory that a forked child had before it allocated anything itself, for each mapping, taken from its first sheet. */
struct inherited {
	bool is_wanted; /* it is a fork without a sheet yet */
	VECTOR(struct recorded_range)
	list; /* by address; the weight is the number of resident bytes */
};

/* Fills in the classes and parts of a row whose live_bytes and fragmentation_bytes are of the same time. map NULL: only the classes are
 * known. Adds pages that are gone since smaps was read to changed_bytes. */
void sheet_fill(pid_t pid, const struct smaps *smaps, struct block_map *map,
		struct inherited *inherited, struct memory_row *row);

#endif
