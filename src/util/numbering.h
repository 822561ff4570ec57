/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns items dense numbers from 0, in the order they were first seen. Items are pointers, or small structs without padding, all
 * of one size, and are equal if their bytes are. One thread at a time. All zero is empty.
 *
 *	size_t known = names.count, number = number_of(&names, name);
 *	if (number == SIZE_MAX)
 *		return error_set(err, "out of memory");
 *	if (number == known)
 *		it is new
 */
#ifndef UTIL_NUMBERING_H
#define UTIL_NUMBERING_H

#include <stddef.h>
#include <stdint.h>

#include "util/vector.h"

struct numbering {
	VECTOR(uint8_t) items; /* their bytes, concatenated */
	size_t count;
	uint32_t *slots; /* number + 1; 0: unused */
	size_t slot_count;
};

/* SIZE_MAX if out of memory. */
#define number_of(numbering, item)                                                                 \
	__extension__({                                                                            \
		const __typeof__(item) item_ = (item);                                             \
		numbering_add((numbering), &item_, sizeof item_);                                  \
	})
size_t numbering_add(struct numbering *numbering, const void *item, size_t item_bytes);
/* The item's number; SIZE_MAX: it was never added. */
size_t numbering_find(const struct numbering *numbering, const void *item, size_t item_bytes);
void numbering_release(struct numbering *numbering);

/* The item with that number, if items are pointers. */
const void *numbered(const struct numbering *numbering, size_t number);

#endif
