/* SPDX-License-Identifier: Apache-2.0 */
/* Why memory of a process is in no recorded block: what was found in the files that it had loaded, weighed by what its
 * numbers show. */
#ifndef MODEL_UNSEEN_H
#define MODEL_UNSEEN_H

#include "model/profile.h"

/* Anonymous memory of a process, and how much of that no record accounts for, at the moment when that is most: as a sheet of
 * its memory says, if another one says at least as much; or what is left of a sheet after the most that blocks and mappings ever took,
 * static data, and what a fork's child has from its parent. Mappings of files with a heap inside count as missing. */
struct unseen_gap {
	bool known;		/* else all is 0: nobody has looked */
	bool is_certain;	/* by sheets, not by what could have been there at most */
	uint64_t at_ns;		/* when that was, since its start */
	uint64_t whole_bytes;	/* heap and anonymous, resident */
	uint64_t missing_bytes; /* of these, what is not accounted for ... */
	uint64_t heap_bytes;	/* ... of it, what is in the heap of brk and in glibc's arenas */
};
struct unseen_gap unseen_gap_of(const struct profile *profile,
				const struct profile_process *process);
/* More than a tenth, and more than a few MiB. */
bool unseen_gap_is_large(struct unseen_gap gap);

/* The note on processes with a large gap that is certain or that there is a reason for, if there are any. Returns how many notes, or -1 if out of
 * memory. */
#define UNSEEN_NOTE "unseen_memory"
ptrdiff_t unseen_note(const struct profile *profile, struct arena *arena, struct profile_note *ret);

#endif
