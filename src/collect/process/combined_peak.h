/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The combined peak of several processes. The size and time of each process' peak are exact; otherwise only the points of the
 * time series are known. The result is the sum that is certain from these points, and a bound: at most the sum of the peaks of
 * all processes that were alive at the same time.
 */
#ifndef COLLECT_PROCESS_COMBINED_PEAK_H
#define COLLECT_PROCESS_COMBINED_PEAK_H

#include <stdbool.h>

#include "format/recording/rows.h"
#include "util/vector.h"

/* From at_ns on, a process holds at least `low` and at most `high`. */
struct combined_peak_step {
	uint64_t at_ns, low, high;
	size_t process, order;
};

struct combined_peak {
	VECTOR(struct combined_peak_step) steps;
	size_t processes;
	bool failed; /* out of memory for at least one step */
};

/* If out of memory, combined_peak_find fails. */
void combined_peak_add(struct combined_peak *together, const struct process_rows *rows);
/* Sets the peak, its time and its bound. False if out of memory: they are unknown then. */
bool combined_peak_find(struct combined_peak *together, struct run_row *run);
void combined_peak_release(struct combined_peak *together);

#endif
