/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coverage: how much of a process' anonymous memory is explained by what was recorded. A recorder sees the calls that pass it and
 * nothing else; this is how a reader learns that there was more.
 */
#ifndef ANALYSIS_ADVICE_COVERAGE_H
#define ANALYSIS_ADVICE_COVERAGE_H

#include "analysis/result/build.h"

struct coverage {
	bool known;		  /* else nothing was read of its memory, or by an older version */
	uint64_t at_ns;		  /* of the sheet, since the start of the process */
	uint64_t anonymous_bytes; /* resident, without static data */
	uint64_t explained_bytes; /* of these */
};

/* Of one sheet. */
struct coverage coverage_of(const struct profile_memory *memory);
/* Of the sheets that leave most unexplained if that is much, else of the last. What an allocator or a runtime inside some file has mapped
 * was seen and yet explains nothing: its blocks were not. */
struct coverage coverage_of_process(const struct profile *profile,
				    const struct profile_process *process);

/* Whether so much is missing that every report says so. */
bool coverage_is_low(const struct coverage *coverage);
/* Whether "nothing lost" may be said of the process: what is known of its memory leaves no room for much that was not seen. */
bool coverage_supports(const struct profile *profile, const struct profile_process *process);

/* The line of the summary and of the view memory. */
void coverage_say(struct sentences *sentences, const struct profile_process *process,
		  const struct coverage *coverage);

#endif
