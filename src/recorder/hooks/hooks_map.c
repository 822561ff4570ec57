/* SPDX-License-Identifier: Apache-2.0 */
/* mmap, munmap, mremap, sbrk, brk: anonymous memory, counted separately from the heap. Mappings that an allocator or the loader
 * makes for itself are not the program's: calls inside a hook, and calls from the object that defines malloc or from ld.so, are not
 * counted. Between an munmap and its record, another thread may map the same range: that range is newer, and stays in the table. */
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/hooks/allocator.h"
#include "recorder/hooks/allocation.h"
#include "recorder/counters/maps.h"

/* Looks up `next` first: the allocator is known only after that. */
static bool by_program(uintptr_t caller)
{
	next_found();
	return !modules_is_loader(caller) && !is_in_allocator(caller);
}

/* Calls by the allocator count here too, but must not start the recorder or
 * register the thread: that allocates, and the allocator may hold its lock. */
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
			maps_remove(slot, (uintptr_t)at, memory_pages(bytes));
			stack_memory_unmapped((uintptr_t)at, memory_pages(bytes));
		}
		uint32_t counters = flags & MAP_ANONYMOUS ? counters_of_map(slot, frame) : 0;

		if (counters != 0)
			maps_add(slot, (uintptr_t)at, memory_pages(bytes), counters);
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

	stack_memory_unmapped((uintptr_t)address, memory_pages(bytes));
	if (slot == NULL)
		return next_found()->munmap(address, bytes);
	hook_record(frame);
	uint64_t until = maps_additions();

	hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	int status = next.munmap(address, bytes);

	hook_record(frame);
	if (status == 0)
		maps_remove_before(slot, until, (uintptr_t)address, memory_pages(bytes));
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
	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		target = va_arg(rest, void *);
	va_end(rest);
	stack_memory_unmapped((uintptr_t)address, memory_pages(old_bytes));
	if (slot == NULL)
		return next_found()->mremap(address, old_bytes, new_bytes, flags, target);
	hook_record(frame);
	uint32_t counters = counters_of_map(slot, frame);
	uint64_t until = maps_before_move(slot, (uintptr_t)address, memory_pages(old_bytes));
	void *at = next.mremap(address, old_bytes, new_bytes, flags, target);

	bool moved = at != MAP_FAILED, stays = !moved || flags & MREMAP_DONTUNMAP;

	if (stays)
		maps_stay(slot, until, (uintptr_t)address, memory_pages(old_bytes));
	if (moved)
		maps_move(slot, until, (uintptr_t)address, stays ? 0 : memory_pages(old_bytes),
			  (uintptr_t)at, memory_pages(new_bytes), counters);
	hook_leave();
	return at;
}

/* Records memory that the program itself gets from sbrk or brk; glibc's malloc does not call these names. The break need not be
 * page-aligned: a page belongs to the first call that reaches it. */
static void move_break(struct slot *slot, uintptr_t from, uintptr_t to, const uintptr_t *frame)
{
	uintptr_t low = memory_pages(MIN(from, to)), high = memory_pages(MAX(from, to));
	uint32_t counters;

	if (low == high)
		return;
	if (to < from) {
		maps_remove(slot, low, high - low);
		return;
	}
	counters = counters_of_map(slot, frame);
	if (counters != 0)
		maps_add(slot, low, high - low, counters);
}

EXPORT void *sbrk(intptr_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = bytes != 0 && by_program(frame[1]) ? hook_enter(frame) : NULL;

	if (slot == NULL)
		return next_found()->sbrk(bytes);
	uintptr_t at = (uintptr_t)next.sbrk(bytes);

	hook_record(frame);
	if (at != (uintptr_t)-1)
		move_break(slot, at, at + (uintptr_t)bytes, frame);
	hook_leave();
	return (void *)at;
}

EXPORT int brk(void *to)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = by_program(frame[1]) ? hook_enter(frame) : NULL;

	if (slot == NULL)
		return next_found()->brk(to);
	uintptr_t from = (uintptr_t)next.sbrk(0);
	int status = next.brk(to);

	hook_record(frame);
	if (status == 0)
		move_break(slot, from, (uintptr_t)to, frame);
	hook_leave();
	return status;
}
