/* SPDX-License-Identifier: Apache-2.0 */
/* What reports say about processes and allocators that were not recorded. */
#ifndef MODEL_MISSED_H
#define MODEL_MISSED_H

#include "format/recording/rows.h"
#include "model/profile.h"

/* Appends at most MISSED_COUNT notes, one for each reason; their words are in the arena. Returns how many, or -1 if out of
 * memory. */
ptrdiff_t missed_notes(const struct run_row *run, struct arena *arena, struct profile_note *notes);

/* Whether the executable defines malloc itself, so that the recorder sees no call of it. */
bool linked_in_is_malloc(const struct profile_process *process);

/* The note on executables that define malloc themselves, if there are any. Returns how many notes, or -1 if out of
 * memory. */
ptrdiff_t linked_in_note(const struct profile *profile, struct arena *arena,
			 struct profile_note *ret);

#endif
