/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A typed growing array, for building a table of unknown length.
 *
 *	VECTOR(struct row) rows = { 0 };
 *	if (!vector_push(&rows, row))
 *		return error_set(err, "out of memory");
 *	for (size_t i = 0; i < rows.count; i++)
 *		use(&rows.at[i]);
 *	vector_release(&rows);
 *
 * All zero is empty. A push invalidates pointers into it.
 */
#ifndef UTIL_VECTOR_H
#define UTIL_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/checked.h"

#define VECTOR(type)                                                                               \
	struct {                                                                                   \
		type *at;                                                                          \
		size_t count;                                                                      \
		size_t capacity;                                                                   \
	}

/* Reserves space for extra more items; false if out of memory, with the vector unchanged. */
#define vector_reserve(v, extra)                                                                   \
	__extension__({                                                                            \
		void *room_ = vector_room((v)->at, (v)->count, (extra), &(v)->capacity,            \
					  sizeof *(v)->at);                                        \
		if (room_)                                                                         \
			(v)->at = room_;                                                           \
		room_ != NULL;                                                                     \
	})

/* Appends one item; false if out of memory, with the vector unchanged. */
#define vector_push(v, item)                                                                       \
	__extension__({                                                                            \
		bool pushed_ = vector_reserve((v), 1);                                             \
		if (pushed_)                                                                       \
			(v)->at[(v)->count++] = (item);                                            \
		pushed_;                                                                           \
	})

#define vector_release(v)                                                                          \
	do {                                                                                       \
		free((v)->at);                                                                     \
		(v)->at = NULL;                                                                    \
		(v)->count = (v)->capacity = 0;                                                    \
	} while (0)

/*
 * Grows the array for the macros: returns the (possibly moved) items, or NULL with everything
 * unchanged.
 */
static inline void *vector_room(void *at, size_t count, size_t extra, size_t *capacity,
				size_t item_bytes)
{
	size_t wanted, bytes;
	void *grown;

	if (!checked_add(count, extra, &wanted))
		return NULL;
	if (at && wanted <= *capacity)
		return at;
	if (wanted < 8)
		wanted = 8;
	/* Growing by half instead of doubling lets realloc of large blocks reuse memory freed by
	 * earlier growth. */
	if (wanted < *capacity + *capacity / 2)
		wanted = *capacity + *capacity / 2;
	if (!checked_mul(wanted, item_bytes, &bytes))
		return NULL;
	grown = realloc(at, bytes);
	if (grown)
		*capacity = wanted;
	return grown;
}

#endif
