/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed as a whole: many small objects with one lifetime, without individual frees.
 * One thread at a time. Objects are zeroed, aligned for any type, and do not move until the
 * release.
 */
#ifndef UTIL_ARENA_H
#define UTIL_ARENA_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

struct arena_block;

struct arena {
	struct arena_block *blocks; /* newest first */
	size_t used_bytes;	    /* allocated from the newest block */
	size_t total_bytes;	    /* allocated by malloc so far */
};

#define ARENA_INIT ((struct arena){ 0 })

/* Frees everything; the arena is empty and usable again. */
void arena_release(struct arena *arena);

/* All return NULL only if out of memory. A size of 0 gives a pointer that must not be dereferenced. */
void *arena_alloc(struct arena *arena, size_t size);
/* count * item_bytes, checked. */
void *arena_alloc_array(struct arena *arena, size_t count, size_t item_bytes);
void *arena_copy(struct arena *arena, const void *data, size_t size);
/* The bytes, NUL-terminated. */
char *arena_string(struct arena *arena, struct span bytes);
char *arena_strdup(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);

#define ARENA_NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_alloc_array((arena), (count), sizeof(type)))

#endif
