/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of bytes with its length, not owned. data may be NULL if size is 0.
 */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checked.h"

struct span {
	const uint8_t *data;
	size_t size;
};

static inline struct span span_of(const void *data, size_t size)
{
	return (struct span){ .data = data, .size = size };
}

/* The part [offset, offset + size); false if it is not entirely inside. */
static inline bool span_part(struct span whole, size_t offset, size_t size, struct span *ret)
{
	if (!range_within(offset, size, whole.size))
		return false;
	*ret = (struct span){ .data = size ? whole.data + offset : NULL, .size = size };
	return true;
}

static inline bool span_equal(struct span a, struct span b)
{
	return a.size == b.size && (a.size == 0 || __builtin_memcmp(a.data, b.data, a.size) == 0);
}

#endif
