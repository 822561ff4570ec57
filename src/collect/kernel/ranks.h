/* SPDX-License-Identifier: Apache-2.0 */
/* The rank of a process in a parallel job, as its launcher put it into the environment. */
#ifndef COLLECT_KERNEL_RANKS_H
#define COLLECT_KERNEL_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

enum { RANK_NONE = -1, RANKS_RANGES_MAX = 64 };

/* The ranks that are recorded. All zero: all ranks, and processes without one. */
struct ranks {
	unsigned count;
	struct {
		int first, last;
	} range[RANKS_RANGES_MAX];
};

/* "0,3-5". On failure `ret` is unchanged. */
int ranks_parse(const char *text, struct ranks *ret, struct error *error);
bool ranks_have(const struct ranks *ranks, int rank);
/* Formats them for live_settings; "" if they do not fit: then the collector filters at the hand-over. */
void ranks_write(const struct ranks *ranks, char *to, size_t room);

/* The rank of this process; RANK_NONE if it has none. */
int rank_own(void);

#endif
