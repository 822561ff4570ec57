/* SPDX-License-Identifier: Apache-2.0 */
/* Which malloc-like functions are recorded as pools, as a person or an environment variable says it:
 *
 *   [NAME=]SHAPE:FUNCTION,SHAPE:FUNCTION,...   one pool, called NAME or as its first function
 *   PREFIX*                                    PREFIXmalloc, PREFIXfree and all others, as one pool called PREFIX
 *
 * several of them with ; between. For both sides: no allocation, no libc. */
#ifndef FORMAT_WRAPS_H
#define FORMAT_WRAPS_H

#include <stdbool.h>
#include <stddef.h>

enum wrap_shape {
	WRAP_MALLOC, /* also valloc */
	WRAP_CALLOC,
	WRAP_REALLOC,
	WRAP_REALLOCARRAY,
	WRAP_FREE,
	WRAP_ALIGNED_ALLOC, /* also memalign */
	WRAP_POSIX_MEMALIGN,
	WRAP_STRDUP, /* also strndup */
	WRAP_SHAPES,
};

/* A part of the text. */
struct wrap_text {
	const char *at;
	size_t bytes;
};

struct wrap_item {
	enum wrap_shape shape;
	struct wrap_text name, rest; /* the function is called by both, one behind the other */
	struct wrap_text pool;
	unsigned group; /* counted from 0: items of one pool */
	bool by_prefix;
};

/* Goes through the items: zeroed but for the text, which ends with a 0. */
struct wraps {
	const char *text;
	const char *wrong; /* what could not be understood; NULL: nothing */
	size_t word;	   /* of a prefix */
	unsigned group;
	struct wrap_text pool;
	bool begun;
};
bool wraps_next(struct wraps *wraps, struct wrap_item *ret);

enum { WRAPS_TEXT_MAX = 2048, WRAPS_MAX = 128, WRAPS_NAME_MAX = 255 };
#endif
