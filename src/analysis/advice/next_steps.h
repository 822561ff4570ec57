/* SPDX-License-Identifier: Apache-2.0 */
/* Where to look next: the commands that this recording makes most useful. */
#ifndef ANALYSIS_ADVICE_NEXT_STEPS_H
#define ANALYSIS_ADVICE_NEXT_STEPS_H

#include "analysis/advice/findings.h"

/* Says the best three, each with its reason, about the process with the highest peak. */
void next_say(struct sentences *sentences, const struct profile *profile,
	      const struct profile_process *largest, const struct findings *findings,
	      const struct query *query);

#endif
