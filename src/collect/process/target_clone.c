/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clone of a target that is encoded while the original continues: copies everything that its rows are made of, except the
 * profile, for which the caller provides a twin or a copy.
 *
 * Runs in the loop's thread, while no worker owns the target. The clone belongs to the caller, then to the encoder.
 */
#include <stdlib.h>
#include <string.h>

#include "collect/process/target.h"

/* Copies the items of a vector; false if out of memory. */
#define COPY_VECTOR(to, from)                                                                      \
	__extension__({                                                                            \
		bool copied_ = (from)->count == 0 || vector_reserve((to), (from)->count);          \
		if (copied_ && (from)->count > 0) {                                                \
			memcpy((to)->at, (from)->at, (from)->count * sizeof *(from)->at);          \
			(to)->count = (from)->count;                                               \
		}                                                                                  \
		copied_;                                                                           \
	})

static bool copy_marks(struct target *to, const struct target *from)
{
	if (!COPY_VECTOR(&to->marks, &from->marks))
		return false;
	to->marks.count = 0;
	for (size_t i = 0; i < from->marks.count; i++) {
		to->marks.at[i].name = strdup(from->marks.at[i].name);
		if (!to->marks.at[i].name)
			return false;
		to->marks.count++;
	}
	return true;
}

static bool copy_known(struct target *to, const struct target *from)
{
	const struct process_row *known = &from->known;

	to->known = *known;
	to->known.command = known->command ? strdup(known->command) : NULL;
	to->known.exe = known->exe ? strdup(known->exe) : NULL;
	return (to->known.command || !known->command) && (to->known.exe || !known->exe);
}

struct target *target_clone(const struct target *target)
{
	struct target *clone = calloc(1, sizeof *clone);

	if (!clone)
		return NULL;
	clone->id = target->id;
	clone->pid = target->pid;
	clone->pid_fd = clone->statm_fd = -1;
	clone->profile = LIVE_PROFILE_INIT;
	clone->started_ns = target->started_ns;
	clone->totals = target->totals;
	clone->peak_rss_bytes = target->peak_rss_bytes;
	clone->stopped_ms = target->stopped_ms;
	clone->marks_read = target->marks_read;
	if (!copy_known(clone, target) || !copy_marks(clone, target) ||
	    !COPY_VECTOR(&clone->series.points, &target->series.points) ||
	    !COPY_VECTOR(&clone->snapshots.rows, &target->snapshots.rows) ||
	    !COPY_VECTOR(&clone->snapshots.sites, &target->snapshots.sites) ||
	    !COPY_VECTOR(&clone->snapshots.counts, &target->snapshots.counts) ||
	    !COPY_VECTOR(&clone->memories.rows, &target->memories.rows) ||
	    !COPY_VECTOR(&clone->threads, &target->threads) ||
	    !loaded_copy(&clone->loaded, &target->loaded)) {
		target_free(clone);
		return NULL;
	}
	return clone;
}
