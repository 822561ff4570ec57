/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which object defines the malloc that the program calls, and whether its blocks may lie closer together than glibc's,
 * which the block map needs to know. Usually it is the malloc we forward to. If the executable itself defines malloc, its calls
 * bypass us and we see only what the C++ operators allocate. That malloc is not probed, since it may rely on constructors that have
 * not run; the one we forward to is, as the program has called it or soon will.
 *
 * Owns: the variables in allocator.h, written once. */
#include "recorder/hooks/allocator.h"

#include "recorder/counters/blocks.h"
#include "recorder/libc/libc.h"
#include "recorder/lookup.h"
#include "recorder/unwind/modules.h"
#include "recorder/hooks/next.h"
#include "recorder/hooks/operators.h"

PROCESS_STATE uintptr_t allocator_start, allocator_bytes;
PROCESS_STATE uintptr_t allocator_libc_start, allocator_libc_bytes;
PROCESS_STATE bool allocator_is_libc;

/* True if two small blocks lie closer than a granule: never with glibc; other allocators have 8-byte blocks. */
static bool packs_tightly(void)
{
	enum { TRIES = 32 };
	void *block[TRIES];
	uintptr_t closest = UINTPTR_MAX;

	for (int i = 0; i < TRIES; i++) {
		block[i] = next.malloc(1);
		for (int k = 0; k < i && block[i] != NULL && block[k] != NULL; k++) {
			uintptr_t a = (uintptr_t)block[i], b = (uintptr_t)block[k];

			closest = MIN(closest, a > b ? a - b : b - a);
		}
	}
	for (int i = 0; i < TRIES; i++)
		next.free(block[i]);
	return closest < 1u << BLOCKS_GRANULE_SHIFT;
}

/*
 * True if libc_header_size equals the usable size; tested on real blocks, because nothing guarantees it. On none with a mapping of its
 * own: when such a block is freed, glibc takes blocks of its size from the heap from then on, and keeps that much more of it untrimmed.
 * The header is read only if the usable size is one of glibc: valgrind replaces glibc's functions, and reports the read as an error.
 */
static bool usable_in_header(void)
{
	static const size_t sizes[] = { 1, 24, 25, 100, 1032, 4000, 60000 };
	bool agrees = next.usable != NULL;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) && agrees; i++) {
		void *block = next.malloc(sizes[i]);

		if (block == NULL)
			return false;
		size_t usable = next.usable(block);

		agrees = libc_may_be_header_size(usable) && libc_header_has_size(block)
				 ? libc_header_size(block) == usable
				 : sizes[i] > ARCH_PAGE;
		next.free(block);
	}
	return agrees;
}

/* True if the file name of a path begins with `start`. */
static bool is_named(const char *path, const char *start)
{
	const char *name = path;

	for (; *path; path++) {
		if (*path == '/')
			name = path + 1;
	}
	while (*start && *name == *start) {
		name++;
		start++;
	}
	return *start == 0;
}

/* Operators that come neither from a C++ runtime nor from the allocator may have a pool with any block spacing. */
static bool operators_may_pack(void)
{
	static const char *const runtimes[] = { "libstdc++.so", "libc++.so", "libc++abi.so" };

	if (operator_of_allocator[0])
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		if (is_named(modules_file_of((void *)next_operator[0]), runtimes[i]))
			return false;
	}
	return true;
}

static const char *file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++) {
		if (*path == '/')
			name = path + 1;
	}
	return name;
}

/* Appends as much as fits; returns the new length. */
static size_t append_name(size_t length, const char *text)
{
	char *to = memory.head->allocator;

	for (; length < sizeof memory.head->allocator - 1 && *text; text++)
		to[length++] = *text;
	to[length] = 0;
	return length;
}

/* As it was at first: with timed calls, `next` leads to functions of ours in a child of fork. */
static const void *malloc_of_program(void)
{
	static const void *first;

	if (first == NULL)
		first = (void *)(next.other_malloc != NULL ? next.other_malloc : next.malloc);
	return first;
}

void allocator_name(void)
{
	size_t length = 0;

	if (linked_in_name[0] == 0 || next.other_malloc == NULL)
		length = append_name(0, allocator_is_libc
						? libc_name()
						: file_name(modules_file_of(malloc_of_program())));
	if (linked_in_name[0] == 0)
		return;
	length = append_name(length, length != 0 ? ", " : "");
	append_name(append_name(length, linked_in_name), LIVE_HOOKS_MARK);
}

void allocator_look_up(void)
{
	const void *libc = lookup_next(LIBC_FUNCTION);

	modules_extent((void *)next.malloc, &allocator_start, &allocator_bytes);
	if (libc != NULL)
		modules_extent(libc, &allocator_libc_start, &allocator_libc_bytes);
}

/* Probes by allocating at most once per program: a forked child may start inside the allocator, which is the same one. */
void allocator_probe(void)
{
	static bool probed, tight;

	allocator_is_libc = modules_same(malloc_of_program(), lookup_next(LIBC_FUNCTION));
	bool is_glibc = allocator_is_libc && !libc_is_musl();

	allocator_name();
	if (!probed) {
		tight = next.other_malloc != NULL || operators_may_pack() ||
			linked_in_is_expected() || (!is_glibc && packs_tightly());
		next.usable_in_header = is_glibc && usable_in_header();
		probed = true;
	}
	blocks_start(tight);
	memory.head->granule_shift = BLOCKS_GRANULE_SHIFT;
}
