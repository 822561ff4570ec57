/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary search.
 *
 *	size_t at = FIRST_WHERE(i, rows.count, rows.at[i].end > address);
 */
#ifndef UTIL_SEARCH_H
#define UTIL_SEARCH_H

#include <stddef.h>

/* The first index below count for which the condition holds, an expression of i; count if there is none. It must hold for all indices after
 * one for which it does. */
#define FIRST_WHERE(i, count, condition)                                                           \
	__extension__({                                                                            \
		size_t low_ = 0, high_ = (count);                                                  \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
			if (condition)                                                             \
				high_ = i;                                                         \
			else                                                                       \
				low_ = i + 1;                                                      \
		}                                                                                  \
		low_;                                                                              \
	})

#endif
