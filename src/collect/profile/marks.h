/* SPDX-License-Identifier: Apache-2.0 */
/* Moments that have a name, on their way from a live profile to the rows of a recording. */
#ifndef COLLECT_PROFILE_MARKS_H
#define COLLECT_PROFILE_MARKS_H

#include "collect/profile/profile_copy.h"
#include "collect/profile/series.h"
#include "format/live/live_marks.h"

typedef VECTOR(struct mark_row) mark_rows;

/* The number of the mark, from 1; 0: there is no room for it. */
uint32_t mark_rows_add(mark_rows *marks, enum live_mark_kind kind, uint64_t at_ns,
		       const char *name);
void mark_rows_release(mark_rows *marks);

/* When it was, since the process' start. */
uint64_t mark_at_ns(const struct live_mark_read *mark, uint64_t started_mono_ns);

/* Moves marks and snapshots over to the rows; the snapshots of marks are those that have their number. */
void mark_rows_give(mark_rows *marks, struct snapshots *snapshots, struct process_rows *rows);

/* All marks of a profile that was copied, and the snapshots that lie in it: those that no collector has taken out. The
 * others are counted as lost. */
void mark_rows_of_copy(const struct profile_copy *copied, struct process_rows *rows);

#endif
