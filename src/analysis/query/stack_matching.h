/* SPDX-License-Identifier: Apache-2.0 */
/* Finds stacks that have the same functions, including inlined calls, regardless of addresses. */
#ifndef ANALYSIS_QUERY_STACK_MATCHING_H
#define ANALYSIS_QUERY_STACK_MATCHING_H

#include "analysis/result/locations.h"
#include "analysis/query/selection.h"

/* Numbers the stacks of the entries: equal numbers mean equal functions. -1 if out of memory. */
int same_stacks(const struct entry *entries, size_t count, struct locations *locations,
		uint32_t *ret_numbers);

#endif
