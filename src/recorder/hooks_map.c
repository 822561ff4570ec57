/* SPDX-License-Identifier: Apache-2.0 */
/* mmap, munmap, mremap: anonymous memory, in numbers of its own. What an allocator or the loader maps for itself is not
 * the program's: calls inside a hook, and calls from the code of whoever defines malloc or of ld.so, are not counted.
 * A range leaves the table before the system call that may let another thread have it. */
#include <stdarg.h>
#include <sys/mman.h>

#include "recorder/allocator.h"
#include "recorder/hook.h"
#include "recorder/maps.h"

static uint64_t whole_pages(size_t bytes)
{
	return (bytes + LIVE_PAGE - 1) & ~(uint64_t)(LIVE_PAGE - 1);
}

/* Only when it is known what we forward to, and with that, who is the allocator. */
static bool by_program(uintptr_t caller)
{
	next_found();
	return !modules_is_loader(caller) && !is_in_allocator(caller);
}

/* A call of the allocator's that matters as well, but begins nothing: the recorder's start asks the allocator for blocks,
 * and that one may hold its lock. */
static ALWAYS_INLINE struct slot *enter_begun(const uintptr_t *frame)
{
	return thread_state.token == *fork_token || by_program(frame[1]) ? hook_enter(frame) : NULL;
}

static ALWAYS_INLINE void *map(void *address, size_t bytes, int protection, int flags, int fd,
			       off_t offset, const uintptr_t *frame)
{
	struct slot *slot = by_program(frame[1]) ? hook_enter(frame) : NULL;

	if (slot == NULL)
		return next_found()->mmap(address, bytes, protection, flags, fd, offset);
	void *at = next.mmap(address, bytes, protection, flags, fd, offset);

	hook_record(frame);
	if (at != MAP_FAILED) {
		if (flags & MAP_FIXED) {
			maps_remove(slot, (uintptr_t)at, whole_pages(bytes));
			stack_memory_gone((uintptr_t)at, whole_pages(bytes));
		}
		uint32_t record = flags & MAP_ANONYMOUS ? record_of_map(slot, frame) : 0;

		if (record != 0)
			maps_add(slot, (uintptr_t)at, whole_pages(bytes), record);
	}
	hook_leave();
	return at;
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return map(address, bytes, protection, flags, fd, offset, HOOK_FRAME());
}

EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return map(address, bytes, protection, flags, fd, offset, HOOK_FRAME());
}

EXPORT int munmap(void *address, size_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = enter_begun(frame);

	if (slot == NULL)
		return next_found()->munmap(address, bytes);
	hook_record(frame);
	/* An address that the kernel would refuse changes nothing; any other unmapping succeeds. */
	if ((uintptr_t)address % LIVE_PAGE == 0 && bytes != 0)
		maps_remove(slot, (uintptr_t)address, whole_pages(bytes));
	stack_memory_gone((uintptr_t)address, whole_pages(bytes));
	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	int status = next.munmap(address, bytes);

	hook_leave();
	return status;
}

EXPORT void *mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, ...)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = by_program(frame[1]) ? hook_enter(frame) : NULL;
	void *target = NULL;
	va_list rest;

	va_start(rest, flags);
	if (flags & MREMAP_FIXED)
		target = va_arg(rest, void *);
	va_end(rest);
	if (slot == NULL)
		return next_found()->mremap(address, old_bytes, new_bytes, flags, target);
	hook_record(frame);
	uint32_t record = record_of_map(slot, frame);
	uint64_t until = maps_before_move(slot, (uintptr_t)address, whole_pages(old_bytes));
	void *at = next.mremap(address, old_bytes, new_bytes, flags, target);

	if (at != MAP_FAILED)
		maps_move(slot, until, (uintptr_t)address, whole_pages(old_bytes), (uintptr_t)at,
			  whole_pages(new_bytes), record);
	stack_memory_gone((uintptr_t)address, whole_pages(old_bytes));
	hook_leave();
	return at;
}
