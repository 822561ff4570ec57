/* SPDX-License-Identifier: Apache-2.0 */
/* Times calls of the allocator: record --time-calls. Functions that read the time-stamp counter take the place of those that the hooks
 * forward to, so a program whose calls are not timed runs the same instructions as before.
 *
 * Each call is timed with the same probability, whatever was called before: a timed call stands for as many as are timed in, like a
 * sample of that weight, and its nanoseconds take the place of a sample's bytes. So sums over sites and threads are unbiased, and their
 * variance is known. */
#ifndef RECORDER_SAMPLING_TIMED_CALLS_H
#define RECORDER_SAMPLING_TIMED_CALLS_H

#include "recorder/slot.h"

/* one_in: times one call in so many; 0: none. Call at process start and in a forked child, last: calls that the recorder makes itself
 * until then are not timed. */
void timed_calls_start(uint64_t one_in);

/* Call before the program disables the time-stamp counter. */
void timed_calls_stop(void);

/* Counts the time of the allocation that has just been recorded. */
void timed_calls_allocated(struct slot *slot, const struct live_site_counters *counters);
#endif
