/* SPDX-License-Identifier: Apache-2.0 */
/* How many standard errors to either side of an estimate hold the truth in 95 of 100 cases, if it comes from so many
 * samples: Student's quantile. With few samples the error itself is not well known. Outside the recorder only. */
#ifndef BASE_CONFIDENCE_H
#define BASE_CONFIDENCE_H

#include <stdint.h>

static inline double confidence_factor(uint64_t samples)
{
	return samples < 2 ? 12.7
			   : 1.96 + 2.4 / ((double)samples - 1) +
				     8.3 / ((double)samples * (double)samples);
}

/* Nothing of so many intervals is sampled with a probability of exp(-3), once in twenty times: what has no sample may be so much. */
enum { CONFIDENCE_UNSEEN_INTERVALS = 3 };
#endif
