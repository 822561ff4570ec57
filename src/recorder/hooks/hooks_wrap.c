/* SPDX-License-Identifier: Apache-2.0 */
/* Wrapped functions: what calls of them come to, by way of wraps.c. Each goes on to the function that was meant and records
 * its block as one of a pool. What that function itself takes from malloc is recorded as always: no guard is held over the
 * call. Only the outermost of nested wrapped calls counts: a calloc that calls its own malloc gives out one block.
 *
 * Which function was meant comes as a fourth argument, which no shape has: the code in wrap_thunks puts it there. A block
 * leaves its pool before the call that may give it to another thread. */
#include <string.h>

#include "recorder/hooks/hook.h"
#include "recorder/api/pools.h"
#include "recorder/api/wraps.h"
#include "recorder/unwind/walk.h"

typedef size_t word; /* an argument that the shape does not have */

/* Whether this is no call inside another wrapped one. One that was left by longjmp or an exception is over. */
static bool begin(const uintptr_t *frame)
{
	struct thread_state *self = &thread_state;
	uintptr_t outer = self->wrapping;
	struct slot *slot = self->token == *fork_token ? self->slot : NULL;

	if (outer != 0 && (uintptr_t)frame < outer && slot != NULL &&
	    walk_is_running(slot, (uintptr_t)frame, outer))
		return false;
	self->wrapping = (uintptr_t)frame;
	return true;
}

static void end(bool outermost)
{
	if (outermost)
		thread_state.wrapping = 0;
}

static uint64_t pool_for(struct slot *slot, uint32_t target)
{
	uint64_t *place = wraps_pool(target), pool = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (pool == 0) {
		uint64_t made = pools_make(slot, wraps_pool_name(target));

		if (__atomic_compare_exchange_n(place, &pool, made, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			pool = made;
	}
	return pool;
}

static void *took(uint32_t target, void *block, size_t bytes, const uintptr_t *frame)
{
	struct slot *slot = block != NULL ? pools_begin(frame) : NULL;

	if (slot != NULL) {
		pools_add(slot, pool_for(slot, target), (uintptr_t)block, bytes, frame);
		hook_leave();
	}
	return block;
}

/* The block that is about to be given back; address 0: not known. */
static struct pool_block gives(uint32_t target, const void *block, const uintptr_t *frame)
{
	struct slot *slot = block != NULL ? pools_begin(frame) : NULL;
	struct pool_block old = { 0 };

	if (slot == NULL)
		return old;
	uint64_t pool = pool_for(slot, target);

	old = pools_take(slot, pool, (uintptr_t)block);
	if (old.counters != 0)
		pools_end_block(slot, pool, &old);
	old.counters = 0; /* it has ended: what follows is about its place and size */
	hook_leave();
	return old;
}

static void *wrapped_malloc(size_t size, word u1, word u2, uint32_t target)
{
	void *(*function)(size_t, word, word) =
		(void *(*)(size_t, word, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame);
	void *block = function(size, u1, u2);

	end(outermost);
	return outermost ? took(target, block, size, frame) : block;
}

static void *wrapped_calloc(size_t count, size_t size, word u, uint32_t target)
{
	void *(*function)(size_t, size_t, word) =
		(void *(*)(size_t, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame);
	void *block = function(count, size, u);

	end(outermost);
	return outermost ? took(target, block, count * size, frame) : block;
}

static void *wrapped_aligned_alloc(size_t alignment, size_t size, word u, uint32_t target)
{
	void *(*function)(size_t, size_t, word) =
		(void *(*)(size_t, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame);
	void *block = function(alignment, size, u);

	end(outermost);
	return outermost ? took(target, block, size, frame) : block;
}

static int wrapped_posix_memalign(void **ret, size_t alignment, size_t size, uint32_t target)
{
	int (*function)(void **, size_t, size_t) =
		(int (*)(void **, size_t, size_t))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame);
	int status = function(ret, alignment, size);

	end(outermost);
	if (outermost && status == 0)
		took(target, *ret, size, frame);
	return status;
}

static void *wrapped_strdup(const char *from, size_t most, word u, uint32_t target)
{
	void *(*function)(const char *, size_t, word) =
		(void *(*)(const char *, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame);
	char *block = function(from, most, u);

	end(outermost);
	return outermost && block != NULL ? took(target, block, strlen(block) + 1, frame) : block;
}

static void wrapped_free(void *block, word u1, word u2, uint32_t target)
{
	void (*function)(void *, word, word) =
		(void (*)(void *, word, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame);

	if (outermost)
		gives(target, block, frame);
	function(block, u1, u2);
	end(outermost);
}

/* After a realloc of any shape: if it failed, the block is still there. */
static void *moved(uint32_t target, struct pool_block old, bool had_block, void *block, size_t size,
		   const uintptr_t *frame)
{
	bool failed = block == NULL && (size != 0 || !had_block);

	if (failed && old.address == 0)
		return NULL;
	struct slot *slot = failed || block != NULL ? pools_begin(frame) : NULL;

	if (slot == NULL)
		return block;
	uint64_t pool = pool_for(slot, target);

	if (failed)
		pools_add(slot, pool, old.address, old.bytes, frame);
	else
		pools_moved(slot, pool, &old, (uintptr_t)block, size, frame);
	hook_leave();
	return block;
}

static void *wrapped_realloc(void *block, size_t size, word u, uint32_t target)
{
	void *(*function)(void *, size_t, word) =
		(void *(*)(void *, size_t, word))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame), had_block = block != NULL;
	struct pool_block old = { 0 };

	if (outermost)
		old = gives(target, block, frame);
	block = function(block, size, u);
	end(outermost);
	return outermost ? moved(target, old, had_block, block, size, frame) : block;
}

static void *wrapped_reallocarray(void *block, size_t count, size_t size, uint32_t target)
{
	void *(*function)(void *, size_t, size_t) =
		(void *(*)(void *, size_t, size_t))(uintptr_t)wrap_targets[target].function;
	const uintptr_t *frame = HOOK_FRAME();
	bool outermost = begin(frame), had_block = block != NULL;
	struct pool_block old = { 0 };

	if (outermost)
		old = gives(target, block, frame);
	block = function(block, count, size);
	end(outermost);
	return outermost ? moved(target, old, had_block, block, count * size, frame) : block;
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

/* Called by the start-up code of each object before its constructors, where somebody defines it. */
void __gmon_start__(void);
EXPORT __attribute__((weak)) void __gmon_start__(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) == NULL)
		return;
	wraps_visit(frame[1]);
	hook_leave();
}

/* All objects of the start have been relocated when the first constructor runs. */
__attribute__((constructor)) static void visit_early(void)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (hook_enter(frame) == NULL)
		return;
	wraps_visit_all();
	hook_leave();
}
