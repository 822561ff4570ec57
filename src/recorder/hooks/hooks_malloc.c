/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family. Each hook: enter, forward, record, leave. A free is recorded before it is forwarded, because after that
 * another thread may get the address. Without a slot the hook only forwards. Any thread, any time.
 *
 * A call that the countdown skips is forwarded by a tail call. The rest is a separate function, also tail-called, so that its frame
 * replaces the hook's. */
#include <errno.h>

#include "recorder/hooks/allocation.h"
#include "recorder/hooks/allocator.h"
#include "recorder/hooks/free.h"
#include "recorder/lookup.h"
#include "recorder/sampling/sampled_blocks.h"

void cfree(void *block);
/* Their real names must not be called in the recorder. */
EXPORT char *hook_duplicate(const char *text) __asm__("strdup");
EXPORT char *hook_duplicate_most(const char *text, size_t most) __asm__("strndup");

/* Leaves the result of the inner allocation of operator new to the operator. On
 * failure the operator may throw and never return, so its guard ends. */
static inline void *hook_pending_new(bool taking, void *block, uint64_t size)
{
	if (!taking)
		return block;
	thread_state.taken = block;
	thread_state.taken_bytes = size;
	if (UNLIKELY(block == NULL))
		hook_leave();
	return block;
}

static NOINLINE void *malloc_recorded(size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();

		return hook_pending_new(taking, next_found()->malloc(size), size);
	}
	return allocated(slot, next.malloc(size), size, frame, LIVE_ENTRY_MALLOC);
}

EXPORT void *malloc(size_t size)
{
	return countdown_passes(size) ? next.malloc(size) : malloc_recorded(size);
}

/* An allocator that asks libc to call it when the thread ends, as snmalloc does, is called for that by libc. Such a block
 * is the allocator's own, as others that it takes inside of a hook; but libc frees it outside. */
COLD static void remember_block_of_libc(void *block, uintptr_t caller)
{
	if (thread_state.guard != 0 && !allocator_is_libc &&
	    caller - allocator_libc_start < allocator_libc_bytes)
		thread_state.of_libc = block;
}

static NOINLINE void *calloc_recorded(size_t count, size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();
		void *block = next_found()->calloc(count, size);

		if (modules_is_loader(frame[1]))
			modules_loader_allocates(NULL);

		remember_block_of_libc(block, frame[1]);
		return hook_pending_new(taking, block, count * size);
	}
	return allocated(slot, next.calloc(count, size), count * size, frame, LIVE_ENTRY_CALLOC);
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	return !__builtin_mul_overflow(count, size, &bytes) && countdown_passes(bytes)
		       ? next.calloc(count, size)
		       : calloc_recorded(count, size);
}

/* Records the end of a block; true if the caller must leave the hook after forwarding. */
static ALWAYS_INLINE bool free_begin(void *block, const uintptr_t *frame)
{
	struct slot *slot = block != NULL ? hook_enter_free(frame) : NULL;

	if (UNLIKELY(slot == NULL))
		return false;
	hook_record(frame);
	record_free(slot, block, frame);
	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	return true;
}

static NOINLINE void free_recorded(void *block)
{
	const uintptr_t *frame = HOOK_FRAME();

	/* In a new child another thread may be unmapping the parent's samples. */
	if (UNLIKELY(sample_is_filtering()) && !hook_in_new_child() &&
	    !sampled_blocks_may_have(block)) {
		next.free(block);
		return;
	}
	if (UNLIKELY(!free_begin(block, frame))) {
		stack_memory_unmapped(0, UINTPTR_MAX);
		if (modules_is_loader(frame[1]) && !hook_in_new_child())
			modules_loader_frees(NULL, block);
		next_found()->free(block);
		return;
	}
	next.free(block);
	hook_leave();
}

EXPORT void free(void *block)
{
	if (sample_is_absent(block))
		next.free(block);
	else
		free_recorded(block);
}

/* Legacy: programs linked before glibc 2.26. */
EXPORT void cfree(void *block)
{
	free_recorded(block);
}

/* If nobody else defines a sized free, only a weak reference gets here; it expects the free that the program would call. */
COLD static void free_of_program(void *block)
{
	void (*other)(void *) = (void (*)(void *))lookup_before("free");

	if (other != NULL)
		other(block);
	else
		free_recorded(block);
}

EXPORT void free_sized(void *block, size_t size)
{
	if (next_found()->free_sized == NULL) {
		free_of_program(block);
		return;
	}
	bool entered = free_begin(block, HOOK_FRAME());

	next.free_sized(block, size);
	if (entered)
		hook_leave();
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	if (next_found()->free_aligned_sized == NULL) {
		free_of_program(block);
		return;
	}
	bool entered = free_begin(block, HOOK_FRAME());

	next.free_aligned_sized(block, alignment, size);
	if (entered)
		hook_leave();
}

/* Removes the block from the map before the call, because during it another
 * thread may get the address, and puts it back if the call fails. */
static ALWAYS_INLINE void *realloc_recorded(struct slot *slot, void *block, size_t size,
					    const uintptr_t *frame)
{
	struct block old = block != NULL ? blocks_take(&slot->block_cache, (uintptr_t)block)
					 : (struct block){ 0 };
	bool sample =
		UNLIKELY(old.counters == 0) && block != NULL && record_take_sample(block, &old);
	uint64_t fragmentation = old.counters != 0 ? fragmentation_of(block, old.size_bytes) : 0;
	/* For an unsampled block, the usable size is the best estimate. */
	uint64_t old_size = old.counters != 0 ? old.size_bytes
					      : (block != NULL ? fragmentation_of(block, 0) : 0);
	ORDER_GIVES(block);
	if (UNLIKELY(old_size >= LIVE_SMALL_LIMIT))
		stack_memory_unmapped((uintptr_t)block, old_size);
	void *moved = next.realloc(block, size);
	uint64_t new_fragmentation = LIKELY(moved != NULL) ? fragmentation_of(moved, size) : 0;

	hook_record(frame);
	if (UNLIKELY(moved == NULL && (size != 0 || block == NULL))) {
		struct block none;

		if (UNLIKELY(sample))
			record_put_sample_back(slot, block, &old, fragmentation);
		else if (old.counters != 0)
			blocks_put(&slot->block_cache, (uintptr_t)block, &old, &none);
		hook_leave();
		return NULL;
	}
	record_realloc(slot, block, &(struct realloc_old){ old, fragmentation, old_size }, moved,
		       size, new_fragmentation, frame, LIVE_ENTRY_REALLOC);
	hook_leave();
	return moved;
}

static ALWAYS_INLINE void *realloc_common(void *block, size_t size, const uintptr_t *frame)
{
	if (sample_is_absent(block) && size != 0 && countdown_passes(size)) /* size 0 frees */
		return next.realloc(block, size);
	struct slot *slot = hook_enter_free(frame);

	if (UNLIKELY(slot == NULL))
		return next_found()->realloc(block, size);
	return realloc_recorded(slot, block, size, frame);
}

EXPORT void *realloc(void *block, size_t size)
{
	return realloc_common(block, size, HOOK_FRAME());
}

/* glibc's reallocarray calls realloc by name, and so reaches the program's own if it defines realloc but not reallocarray. */
EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;

	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
		errno = ENOMEM;
		return NULL;
	}
	if (UNLIKELY(next_found()->other_realloc != NULL))
		return next.other_realloc(block, bytes);
	return realloc_common(block, bytes, HOOK_FRAME());
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (countdown_passes(size))
		return next.posix_memalign(ret, alignment, size);
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();

		int failed = next_found()->posix_memalign(ret, alignment, size);

		hook_pending_new(taking, failed ? NULL : *ret, size);
		return failed;
	}
	int status = next.posix_memalign(ret, alignment, size);

	allocated(slot, status == 0 ? *ret : NULL, size, frame, LIVE_ENTRY_ALIGNED);
	return status;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (countdown_passes(size))
		return next.aligned_alloc(alignment, size);
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();

		return hook_pending_new(taking, next_found()->aligned_alloc(alignment, size), size);
	}
	return allocated(slot, next.aligned_alloc(alignment, size), size, frame,
			 LIVE_ENTRY_ALIGNED);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (countdown_passes(size))
		return next.memalign(alignment, size);
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();

		return hook_pending_new(taking, next_found()->memalign(alignment, size), size);
	}
	return allocated(slot, next.memalign(alignment, size), size, frame, LIVE_ENTRY_ALIGNED);
}

EXPORT void *valloc(size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (countdown_passes(size))
		return next.valloc(size);
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();

		return hook_pending_new(taking, next_found()->valloc(size), size);
	}
	return allocated(slot, next.valloc(size), size, frame, LIVE_ENTRY_ALIGNED);
}

EXPORT void *pvalloc(size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (countdown_passes(size))
		return next.pvalloc(size);
	struct slot *slot = hook_enter(frame);

	if (UNLIKELY(slot == NULL)) {
		bool taking = hook_has_pending_new();

		return hook_pending_new(taking, next_found()->pvalloc(size), size);
	}
	return allocated(slot, next.pvalloc(size), size, frame, LIVE_ENTRY_ALIGNED);
}

EXPORT size_t malloc_usable_size(void *block)
{
	return next_found()->malloc_usable_size(block);
}

/* These call malloc by its name, and so are seen there. */
EXPORT char *hook_duplicate(const char *text)
{
	return next_found()->duplicate(text);
}

EXPORT char *hook_duplicate_most(const char *text, size_t most)
{
	return next_found()->duplicate_most(text, most);
}
