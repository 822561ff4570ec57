/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena: a list of blocks, of which only the newest has free space. Blocks double up to
 * BLOCK_MAX_BYTES, so that a small arena costs little and a large one few calls. An object larger
 * than a quarter of that gets its own block, inserted after the newest one, so that the newest
 * one's free space stays usable.
 * Invariant: used_bytes <= blocks->capacity, and both are multiples of ALIGN.
 */
#include "util/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK_MIN_BYTES = 4096, BLOCK_MAX_BYTES = 1 << 20 };
#define ALIGN _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	size_t capacity;
	_Alignas(max_align_t) uint8_t data[];
};

void arena_release(struct arena *arena)
{
	struct arena_block *block = arena->blocks;

	while (block) {
		struct arena_block *next = block->next;

		free(block);
		block = next;
	}
	*arena = ARENA_INIT;
}

static struct arena_block *block_new(struct arena *arena, size_t capacity)
{
	struct arena_block *block;
	size_t bytes;

	if (!checked_add(capacity, sizeof *block, &bytes))
		return NULL;
	/* calloc, because fresh pages from the kernel are already zero and need not be touched
	 * here. */
	block = calloc(1, bytes);
	if (!block)
		return NULL;
	block->capacity = capacity;
	arena->total_bytes += bytes;
	return block;
}

static void *alloc_apart(struct arena *arena, size_t size)
{
	struct arena_block *block = block_new(arena, size);

	if (!block)
		return NULL;
	if (arena->blocks) {
		block->next = arena->blocks->next;
		arena->blocks->next = block;
	} else {
		arena->blocks = block;
		arena->used_bytes = size;
	}
	return block->data;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	uint64_t rounded;
	void *result;

	ASSERT(!arena->blocks || arena->used_bytes <= arena->blocks->capacity);
	if (!checked_align_up(size, ALIGN, &rounded))
		return NULL;
	if (rounded > BLOCK_MAX_BYTES / 4)
		return alloc_apart(arena, rounded);
	if (!arena->blocks || rounded > arena->blocks->capacity - arena->used_bytes) {
		size_t capacity = arena->blocks ? arena->blocks->capacity * 2 : BLOCK_MIN_BYTES;
		struct arena_block *block;

		while (capacity < rounded)
			capacity *= 2;
		block = block_new(arena, MIN(capacity, (size_t)BLOCK_MAX_BYTES));
		if (!block)
			return NULL;
		block->next = arena->blocks;
		arena->blocks = block;
		arena->used_bytes = 0;
	}
	result = arena->blocks->data + arena->used_bytes;
	arena->used_bytes += rounded;
	return result;
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t item_bytes)
{
	size_t bytes;

	return checked_mul(count, item_bytes, &bytes) ? arena_alloc(arena, bytes) : NULL;
}

void *arena_copy(struct arena *arena, const void *data, size_t size)
{
	void *copy = arena_alloc(arena, size);

	if (copy && size)
		memcpy(copy, data, size);
	return copy;
}

char *arena_string(struct arena *arena, struct span bytes)
{
	size_t size;
	char *text;

	if (!checked_add(bytes.size, (size_t)1, &size))
		return NULL;
	text = arena_alloc(arena, size);
	if (text && bytes.size)
		memcpy(text, bytes.data, bytes.size);
	return text;
}

char *arena_strdup(struct arena *arena, const char *text)
{
	return arena_copy(arena, text, strlen(text) + 1);
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	char *text = NULL;
	va_list args, again;
	int length;

	va_start(args, format);
	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
	if (length >= 0)
		text = arena_alloc(arena, (size_t)length + 1);
	if (text)
		vsnprintf(text, (size_t)length + 1, format, again);
	va_end(again);
	va_end(args);
	return text;
}
