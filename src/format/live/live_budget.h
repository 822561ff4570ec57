/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a recorder may take: the one rule, for the collector, which writes it to the control page again and again, and for
 * a recorder without a collector, which goes by it once. What is free is read by each side in its own way.
 *
 * A recorder's memory grows with what it has to remember: distinct stacks, and the places of live blocks. The budget only
 * bounds that. It is wide where memory is plenty, since what does not fit is lost to the reader, and it shrinks when others
 * need the memory.
 */
#ifndef FORMAT_LIVE_BUDGET_H
#define FORMAT_LIVE_BUDGET_H

#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"

/* One part in so many ... */
enum {
	LIVE_BUDGET_OF_FREE = 10, /* of the memory that is free on the machine */
	LIVE_BUDGET_OF_GROUP =
		10, /* of what the limit of a control group leaves: its pages are charged to it */
	LIVE_BUDGET_OF_FOLDER = 10, /* of what is free in the folder of a file */
	LIVE_BUDGET_OF_HEAP = 3,    /* of the live heap, where that is more: up to limit_bytes */
};
#define LIVE_BUDGET_LEAST_BYTES (64ull << 20)
#define LIVE_BUDGET_MOST_BYTES (1ull << 30)

struct live_budget {
	uint64_t bytes;	      /* whatever the heap is */
	uint64_t limit_bytes; /* with the share of the heap */
};

/* free_bytes: on the machine, 0 = not known; group_free_bytes: below the limit of the control group, UINT64_MAX = no limit;
 * own_bytes: what the recorder has already is part of both. */
static inline struct live_budget live_budget_default(uint64_t free_bytes, uint64_t group_free_bytes,
						     uint64_t own_bytes)
{
	uint64_t part = (free_bytes + own_bytes) / LIVE_BUDGET_OF_FREE;
	struct live_budget budget = { MIN(part, LIVE_BUDGET_MOST_BYTES), UINT64_MAX };

	budget.bytes = MAX(budget.bytes, LIVE_BUDGET_LEAST_BYTES);
	if (group_free_bytes != UINT64_MAX) {
		budget.limit_bytes = (group_free_bytes + own_bytes) / LIVE_BUDGET_OF_GROUP;
		budget.bytes = MIN(budget.bytes, budget.limit_bytes);
	}
	return budget;
}

#endif
