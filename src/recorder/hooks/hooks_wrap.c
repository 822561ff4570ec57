/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers that calls of wrapped functions are redirected to (wraps.c). Each calls the original function and records its
 * block in a pool (wrapped.h).
 *
 * The code in wrap_thunks passes the original function's index as a fourth argument, which no shape uses. */
#include <string.h>

#include "recorder/hooks/hook.h"
#include "recorder/hooks/linked_in.h"
#include "recorder/api/wrapped.h"
#include "recorder/api/wraps.h"
#include "recorder/otel/thread_context.h"

typedef size_t word; /* an argument that the shape does not use */

static void *wrapped_malloc(size_t size, word u1, word u2, uint32_t target)
{
	void *(*function)(size_t, word, word) =
		(void *(*)(size_t, word, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame);
	void *block = function(size, u1, u2);

	wrapped_end(outermost);
	return outermost ? wrapped_took(wraps_pool(target), block, size, frame) : block;
}

static void *wrapped_calloc(size_t count, size_t size, word u, uint32_t target)
{
	void *(*function)(size_t, size_t, word) =
		(void *(*)(size_t, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame);
	void *block = function(count, size, u);

	wrapped_end(outermost);
	return outermost ? wrapped_took(wraps_pool(target), block, count * size, frame) : block;
}

static void *wrapped_aligned_alloc(size_t alignment, size_t size, word u, uint32_t target)
{
	void *(*function)(size_t, size_t, word) =
		(void *(*)(size_t, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame);
	void *block = function(alignment, size, u);

	wrapped_end(outermost);
	return outermost ? wrapped_took(wraps_pool(target), block, size, frame) : block;
}

static int wrapped_posix_memalign(void **ret, size_t alignment, size_t size, uint32_t target)
{
	int (*function)(void **, size_t, size_t) =
		(int (*)(void **, size_t, size_t))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame);
	int status = function(ret, alignment, size);

	wrapped_end(outermost);
	if (outermost && status == 0)
		wrapped_took(wraps_pool(target), *ret, size, frame);
	return status;
}

static void *wrapped_strdup(const char *from, size_t most, word u, uint32_t target)
{
	void *(*function)(const char *, size_t, word) =
		(void *(*)(const char *, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame);
	char *block = function(from, most, u);

	wrapped_end(outermost);
	return outermost && block != NULL
		       ? wrapped_took(wraps_pool(target), block, strlen(block) + 1, frame)
		       : block;
}

static void wrapped_free(void *block, word u1, word u2, uint32_t target)
{
	void (*function)(void *, word, word) =
		(void (*)(void *, word, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame);

	if (outermost)
		wrapped_gives(wraps_pool(target), block, frame);
	function(block, u1, u2);
	wrapped_end(outermost);
}

static void *wrapped_realloc(void *block, size_t size, word u, uint32_t target)
{
	void *(*function)(void *, size_t, word) =
		(void *(*)(void *, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame), had_block = block != NULL;
	struct pool_block old = { 0 };

	if (outermost)
		old = wrapped_gives(wraps_pool(target), block, frame);
	block = function(block, size, u);
	wrapped_end(outermost);
	return outermost ? wrapped_moved(wraps_pool(target), old, had_block, block, size, frame)
			 : block;
}

static void *wrapped_reallocarray(void *block, size_t count, size_t size, uint32_t target)
{
	void *(*function)(void *, size_t, size_t) =
		(void *(*)(void *, size_t, size_t))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = wrapped_begin(frame), had_block = block != NULL;
	struct pool_block old = { 0 };

	if (outermost)
		old = wrapped_gives(wraps_pool(target), block, frame);
	block = function(block, count, size);
	wrapped_end(outermost);
	return outermost ? wrapped_moved(wraps_pool(target), old, had_block, block, count * size,
					 frame)
			 : block;
}

const void *const wrap_handler_of[WRAP_SHAPES] = {
	[WRAP_MALLOC] = wrapped_malloc,
	[WRAP_CALLOC] = wrapped_calloc,
	[WRAP_REALLOC] = wrapped_realloc,
	[WRAP_REALLOCARRAY] = wrapped_reallocarray,
	[WRAP_FREE] = wrapped_free,
	[WRAP_ALIGNED_ALLOC] = wrapped_aligned_alloc,
	[WRAP_POSIX_MEMALIGN] = wrapped_posix_memalign,
	[WRAP_STRDUP] = wrapped_strdup,
};

/* Called by the start-up code of each object before its constructors, if anyone defines it. */
void __gmon_start__(void);
EXPORT __attribute__((weak)) void __gmon_start__(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) == NULL)
		return;
	wraps_visit(frame[1]);
	otel_visit(frame[1]);
	hook_leave();
	linked_in_install();
}

/* All objects loaded at start-up have been relocated when the first constructor runs. */
__attribute__((constructor)) static void visit_early(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) == NULL)
		return;
	wraps_visit_all();
	otel_visit_all();
	hook_leave();
	linked_in_install();
}
