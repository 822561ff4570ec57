/* SPDX-License-Identifier: Apache-2.0 */
/* Notes on processes and allocators that were not recorded. */
#ifndef MODEL_MISSED_H
#define MODEL_MISSED_H

#include "format/recording/rows.h"
#include "model/profile.h"

/* Appends at most MISSED_COUNT notes, one per reason, with their texts in the arena. Returns their number, or -1 if out of
 * memory. */
ptrdiff_t missed_notes(const struct run_row *run, struct arena *arena, struct profile_note *notes);

/* One of the programs that were not recorded, from 0; false: no more. */
struct missed_program {
	const char *path; /* "": unknown */
	const char *why;
};
bool missed_program(const struct profile *profile, size_t index, struct missed_program *ret);

/* Whether the executable defines malloc itself, so that the recorder sees none of its calls. */
bool linked_in_is_malloc(const struct profile_process *process);
/* Whether the allocator in the executable was recorded by its own hooks. */
bool linked_in_has_hooks(const struct profile_process *process);

/* The note on executables that define malloc themselves, if any. Returns the number of notes, or -1 if out of memory. */
ptrdiff_t linked_in_note(const struct profile *profile, struct arena *arena,
			 struct profile_note *ret);

#endif
