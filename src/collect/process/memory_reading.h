/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory of a running process is at this moment: its mappings, its balance sheet, and the memory of the machine. */
#ifndef COLLECT_PROCESS_MEMORY_READING_H
#define COLLECT_PROCESS_MEMORY_READING_H

#include "collect/process/sheet.h"
#include "collect/profile/live_profile.h"
#include "collect/profile/series.h"

struct memory_reading {
	char *text; /* of smaps; the list refers to it */
	struct smaps list;
	struct memory_row row;
	struct memory_flow began; /* before the pages were read */
};
void memory_reading_release(struct memory_reading *reading);

/* Only the mappings, with the stacks that guards reveal. False: the process has ended or may not be read, or out of memory; release it in
 * either case. */
bool memory_read_mappings(struct memory_reading *reading, pid_t pid);
/* All of it: fills in the row, but not its moment and its control group. profile NULL, or unreadable: only the classes are known, and the live
 * bytes are left as they are. Any thread that owns `reading`. */
bool memory_read(struct memory_reading *reading, pid_t pid, const struct live_profile *profile,
		 struct inherited *inherited);

/* Fills in the live bytes. The caller owns the profile. */
void memory_read_live(struct live_profile *profile, struct memory_row *row);
/* The internal fragmentation of all live blocks. */
uint64_t memory_live_fragmentation(const struct live_totals *totals);

#endif
