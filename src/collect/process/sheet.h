/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory sheet of one moment: what the resident anonymous memory of a process consists of. Made mapping by mapping from smaps, the
 * recorded blocks and the recorded mappings. Nothing is a residual under another's name: what nothing recorded explains is "unrecorded".
 */
#ifndef COLLECT_PROCESS_SHEET_H
#define COLLECT_PROCESS_SHEET_H

#include "collect/profile/block_map.h"
#include "collect/kernel/smaps.h"

/* What a forked child had before it allocated anything itself: by mapping, taken from its first sheet. */
struct inherited {
	bool is_wanted; /* it is a fork, and its first sheet is still to come */
	VECTOR(struct recorded_range)
	list; /* by address; the weight is how many bytes were there */
};

/* Fills the classes and parts of a row whose live_bytes and slack_bytes are of the same moment. map NULL: only the classes are known. */
void sheet_fill(pid_t pid, const struct smaps *smaps, const struct block_map *map,
		struct inherited *inherited, struct memory_row *row);

#endif
