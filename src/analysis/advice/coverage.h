/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coverage: how much of a process' anonymous memory the recording explains. The recorder sees only the calls that pass through
 * it; coverage shows whether there was more.
 */
#ifndef ANALYSIS_ADVICE_COVERAGE_H
#define ANALYSIS_ADVICE_COVERAGE_H

#include "analysis/result/build.h"

struct coverage {
	bool known;		  /* else its memory was not read, or by an older version */
	bool is_unsteady;	  /* unknown because it changed while it was read */
	bool is_outgrown;	  /* unknown because the process had more than when it was read */
	uint64_t at_ns;		  /* time of the memory sheet, since the start of the process */
	uint64_t anonymous_bytes; /* resident, without static data */
	uint64_t explained_bytes; /* part of anonymous_bytes */
};

/* From the sheets that leave most unexplained if a note reports that, else from the last one that shows anything. If the blocks of the program's
 * own allocator were not recorded, it is known only if it is low: else they are in static data, or in mappings that were recorded. Mappings by an allocator or a runtime inside some
 * file are recorded but count as unexplained: their blocks were not recorded. */
struct coverage coverage_of_process(const struct profile *profile,
				    const struct profile_process *process);

/* Memory that the records do not explain. 0: little, or unknown. */
uint64_t coverage_missing_bytes(const struct profile *profile,
				const struct profile_process *process);
/* Whether so much is missing that every report mentions it. */
bool coverage_is_low(const struct coverage *coverage);
/* Whether a report may say "nothing lost": the known memory of the process leaves no room for much unrecorded memory. */
bool coverage_supports(const struct profile *profile, const struct profile_process *process);

/* The line in the summary and in the memory view. */
void coverage_describe(struct sentences *sentences, const struct profile *profile,
		       const struct profile_process *process, const struct coverage *coverage);

#endif
