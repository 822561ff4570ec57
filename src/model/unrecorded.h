/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why memory of a process is in no recorded block: evidence from its loaded files, weighted by its numbers. */
#ifndef MODEL_UNRECORDED_H
#define MODEL_UNRECORDED_H

#include "model/profile.h"

/* The anonymous memory of a process, and the part that no record explains, at the moment when that part is largest: either as a memory
 * sheet shows it, without what may have been allocated or released while it was read, if another sheet shows at least as much; or what a sheet leaves after subtracting the maximum ever used by blocks
 * and mappings, static data, and memory inherited by fork. Mappings of files that contain a heap count as missing. */
struct unrecorded_gap {
	bool known;		/* else all is 0: never observed */
	bool is_certain;	/* from two sheets, not from upper bounds */
	uint64_t at_ns;		/* time of the sheet, since the process' start */
	uint64_t whole_bytes;	/* heap and anonymous, resident */
	uint64_t missing_bytes; /* not accounted for ... */
	uint64_t heap_bytes;	/* ... of it, in the brk heap and glibc's arenas */
};
struct unrecorded_gap unrecorded_gap_of(const struct profile *profile,
					const struct profile_process *process);
/* What the resident set of a process that has ended had at most beyond each look at it, and beyond what was recorded since: if it is large, no
 * look shows whether that was recorded. 0: little, or there was no look. */
struct unrecorded_growth {
	uint64_t bytes;
	uint64_t look_at_ns, look_rss_bytes; /* the look with the largest resident set */
};
struct unrecorded_growth unrecorded_growth_of(const struct profile *profile,
					      const struct profile_process *process);

/* More than a tenth of the memory, and more than a few MiB. */
bool unrecorded_gap_is_large(struct unrecorded_gap gap);
/* Returns true if the note below reports the process, and its gap in either case. */
bool unrecorded_is_reported(const struct profile *profile, const struct profile_process *process,
			    struct unrecorded_gap *ret);

/* The peak of what the program mapped itself. 0: unknown, because an allocator or a runtime made some of the mappings for its blocks. */
uint64_t unrecorded_program_maps_peak(const struct profile_process *process);

/* An upper bound (the maxima of sites, at most the peak of all mappings) for the memory that Python mapped for its objects, none of which was recorded. 0: little,
 * or they were recorded. */
uint64_t unrecorded_python_arenas(const struct profile_process *process);

/* The note on processes with a large gap that is certain or has a likely reason, if any. Returns the number of notes, or -1 if out of
 * memory. */
#define UNRECORDED_NOTE "unexplained_memory"
ptrdiff_t unrecorded_note(const struct profile *profile, struct arena *arena,
			  struct profile_note *ret);

#endif
