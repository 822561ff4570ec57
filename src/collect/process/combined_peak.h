/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most that several processes held at one moment. Their peaks are known exactly, and when they were; between them there are only
 * the points of their time series. So the answer is what they held together for certain, as far as points tell, and a bound: no
 * more than the sum of the peaks of those who were alive at the same time.
 */
#ifndef COLLECT_PROCESS_COMBINED_PEAK_H
#define COLLECT_PROCESS_COMBINED_PEAK_H

#include <stdbool.h>

#include "format/recording/rows.h"
#include "util/vector.h"

/* From here on a process holds at least `low` and at most `high`. */
struct combined_peak_step {
	uint64_t at_ns, low, high;
	size_t process, order;
};

struct combined_peak {
	VECTOR(struct combined_peak_step) steps;
	size_t processes;
	bool failed; /* there was no memory for one of them */
};

/* Without memory for it, combined_peak_find tells. */
void combined_peak_add(struct combined_peak *together, const struct process_rows *rows);
/* Sets the peak, its moment and its bound. False if there was no memory: then they are not known. */
bool combined_peak_find(struct combined_peak *together, struct run_row *run);
void combined_peak_release(struct combined_peak *together);

#endif
