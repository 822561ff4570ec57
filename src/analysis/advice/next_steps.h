/* SPDX-License-Identifier: Apache-2.0 */
/* Next steps: the commands that are most useful for this recording. */
#ifndef ANALYSIS_ADVICE_NEXT_STEPS_H
#define ANALYSIS_ADVICE_NEXT_STEPS_H

#include "analysis/advice/findings.h"

/* Prints the best three, each with its reason, for the process `largest`. */
void next_steps_describe(struct sentences *sentences, const struct profile *profile,
			 const struct profile_process *largest, const struct findings *findings,
			 const struct query *query);

#endif
