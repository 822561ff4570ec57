/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc-like functions to record as pools, in the syntax of the option and the environment variable:
 *
 *   [NAME=]SHAPE:FUNCTION,SHAPE:FUNCTION,...   one pool, called NAME or like its first function
 *   PREFIX*                                    PREFIXmalloc, PREFIXfree and all others, as one pool called PREFIX
 *
 * Several are separated by ;. For both sides: no allocation, no libc. */
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
	struct wrap_text name, rest; /* the function's name is their concatenation */
	struct wrap_text pool;
	unsigned group; /* counted from 0: items of one pool */
	bool by_prefix;
};

/* Iterator over the items: zeroed except for the text, which is zero-terminated. */
struct wraps {
	const char *text;
	const char *wrong; /* the part that is not valid; NULL: none */
	size_t word;	   /* index of the current word of a prefix */
	unsigned group;
	struct wrap_text pool;
	bool begun;
};
bool wraps_next(struct wraps *wraps, struct wrap_item *ret);

enum { WRAPS_TEXT_MAX = 2048, WRAPS_MAX = 128, WRAPS_NAME_MAX = 255 };
#endif
