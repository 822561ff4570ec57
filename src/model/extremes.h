/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest and largest block of a process, its highest allocation rate, and the most blocks that were live. */
#ifndef MODEL_EXTREMES_H
#define MODEL_EXTREMES_H

#include "model/profile.h"

struct process_extremes {
	bool has_sizes; /* of heap blocks; if sampled, of those in the sample */
	/* A site with more than eight sizes has classes: then these are the bounds of a class; UINT64_MAX: it has none. */
	uint64_t smallest_bytes, largest_bytes;
	bool smallest_is_bound, largest_is_bound;
	bool has_rate; /* the series covers more than one moment */
	uint64_t calls_per_second;
	uint64_t live_blocks; /* at the moments of the series, at the peak and at the end */
};
struct process_extremes process_extremes(const struct profile_process *process);

#endif
