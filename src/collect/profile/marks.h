/* SPDX-License-Identifier: Apache-2.0 */
/* Named events and snapshots, from a live profile to the rows of a recording. */
#ifndef COLLECT_PROFILE_MARKS_H
#define COLLECT_PROFILE_MARKS_H

#include "collect/profile/profile_copy.h"
#include "collect/profile/series.h"
#include "format/live/live_marks.h"

typedef VECTOR(struct mark_row) mark_rows;

/* Returns the number of the mark, from 1; 0: the limit is reached, or out of memory. */
uint32_t mark_rows_add(mark_rows *marks, enum live_mark_kind kind, uint64_t at_ns,
		       const char *name);
void mark_rows_release(mark_rows *marks);

/* The time of the mark since the process' start. */
uint64_t mark_at_ns(const struct live_mark_read *mark, uint64_t started_mono_ns);

/* Moves marks and snapshots to the rows, and links each mark to the snapshot that has its number. */
void mark_rows_give(mark_rows *marks, struct snapshots *snapshots, struct process_rows *rows);

/* Reads all marks of a copied profile, and the snapshots in it that no collector has read. The others are counted as lost. */
void mark_rows_of_copy(const struct profile_copy *copied, struct process_rows *rows);

#endif
