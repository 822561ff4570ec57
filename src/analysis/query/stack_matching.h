/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks are the same by the functions on them, inlined ones too, whatever their addresses are. */
#ifndef ANALYSIS_QUERY_STACK_MATCHING_H
#define ANALYSIS_QUERY_STACK_MATCHING_H

#include "analysis/result/locations.h"
#include "analysis/query/selection.h"

/* Numbers the stacks of the entries: the same number, the same functions. -1 if out of memory. */
int same_stacks(const struct entry *entries, size_t count, struct locations *locations,
		uint32_t *ret_numbers);

#endif
