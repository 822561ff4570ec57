/* SPDX-License-Identifier: Apache-2.0 */
/* The number of standard errors on either side of an estimate that gives a 95 % confidence interval, for that many samples:
 * Student's quantile. With few samples the standard error itself is uncertain. Not for the recorder. */
#ifndef BASE_CONFIDENCE_H
#define BASE_CONFIDENCE_H

#include <stdint.h>

static inline double confidence_factor(uint64_t samples)
{
	return samples < 2 ? 12.7
			   : 1.96 + 2.4 / ((double)samples - 1) +
				     8.3 / ((double)samples * (double)samples);
}

/* The probability of no sample in this many intervals is exp(-3), one in twenty: a site without samples may have that much. */
enum { CONFIDENCE_UNSEEN_INTERVALS = 3 };
#endif
