/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's memory budget: one rule for the collector, which updates it in the control page regularly, and for a recorder
 * without a collector, which computes it once. Each side determines free memory in its own way.
 *
 * The recorder's memory grows with the number of distinct stacks and live blocks; the budget only bounds it. It is generous if
 * much memory is free, since data that does not fit is lost, and it shrinks when others need the memory.
 */
#ifndef FORMAT_LIVE_BUDGET_H
#define FORMAT_LIVE_BUDGET_H

#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"

/* One part in ... */
enum {
	LIVE_BUDGET_OF_FREE = 10, /* of the memory that is free on the machine */
	LIVE_BUDGET_OF_GROUP =
		10, /* of the free part of a control group's limit: the recorder's pages are charged to it */
	LIVE_BUDGET_OF_FOLDER = 10, /* of the free space in the folder of a file */
	LIVE_BUDGET_OF_HEAP = 3,    /* of the live heap, if that is more: up to limit_bytes */
};
#define LIVE_BUDGET_LEAST_BYTES (64ull << 20)
#define LIVE_BUDGET_MOST_BYTES (1ull << 30)

struct live_budget {
	uint64_t bytes;	      /* independent of the heap */
	uint64_t limit_bytes; /* including the share of the heap */
};

/* free_bytes: on the machine, 0 = unknown; group_free_bytes: below the limit of the control group, UINT64_MAX = no limit;
 * own_bytes: memory that the recorder already uses, which counts as free in both. */
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
