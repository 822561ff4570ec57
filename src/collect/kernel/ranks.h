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

/* Which ranks are recorded. Zeroed: all, and those who have none. */
struct ranks {
	unsigned count;
	struct {
		int first, last;
	} range[RANKS_RANGES_MAX];
};

/* "0,3-5". On failure `ret` is as it was. */
int ranks_parse(const char *text, struct ranks *ret, struct error *error);
bool ranks_have(const struct ranks *ranks, int rank);
/* As live_settings has them; "" if there are too many to say: then whoever asks has to judge. */
void ranks_write(const struct ranks *ranks, char *to, size_t room);

/* Of this process; RANK_NONE if it has none. */
int rank_own(void);

#endif
