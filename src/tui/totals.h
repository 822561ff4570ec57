/* SPDX-License-Identifier: Apache-2.0 */
/* The lines above the pane: totals, rates between the last two readings, and their history. */
#ifndef TUI_TOTALS_H
#define TUI_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "util/buffer.h"

enum { TOTALS_POINTS = 16, TOTALS_LINES = 3 };

struct totals_point {
	uint64_t at_ns; /* since the start of the process */
	uint64_t live_bytes, rss_bytes;
	uint64_t calls, bytes;
};

/* The last readings, oldest first. Zero-initialized: none. */
struct totals {
	struct totals_point points[TOTALS_POINTS];
	size_t count;
};

/* Adds a reading. Discards the earlier ones if this is another process, or the same after exec. */
void totals_add(struct totals *totals, const struct profile_process *process);

/* Appends one of the lines about the process; its last reading must have been added. */
void totals_line(const struct totals *totals, const struct profile_process *process, size_t line,
		 bool exact_bytes, bool utf8, struct buffer *out);

#endif
