/* SPDX-License-Identifier: Apache-2.0 */
/* Who defines the malloc that the program reaches, by name, and whether its blocks may lie closer together than glibc's,
 * for the block map. Mostly that is whom we forward to; but where the executable itself defines malloc, its calls do not
 * pass here: what the C++ operators hand out then is all that we see. It is not called for a try, since it may rely on
 * constructors that have not run; whom we forward to is, as malloc is what brought us here or soon will.
 *
 * Owns: what allocator.h shows, written once. */
#include "recorder/hooks/allocator.h"

#include "recorder/counters/blocks.h"
#include "recorder/libc/libc.h"
#include "recorder/unwind/modules.h"
#include "recorder/hooks/next.h"
#include "recorder/hooks/operators.h"

PROCESS_STATE uintptr_t allocator_start, allocator_bytes;
PROCESS_STATE bool allocator_is_libc;

/* Whether two small blocks lie closer than a granule: glibc's never do, other allocators hand out 8 bytes. */
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

/* Whether libc_header_size is the usable size: tried on real blocks, because nothing guarantees it. */
static bool usable_in_header(void)
{
	static const size_t sizes[] = { 1, 24, 25, 100, 1032, 4000, 70000, 1 << 20 };
	bool agrees = next.usable != NULL;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) && agrees; i++) {
		void *block = next.malloc(sizes[i]);

		if (block == NULL)
			return false;
		agrees = libc_header_has_size(block) ? libc_header_size(block) == next.usable(block)
						     : sizes[i] > ARCH_PAGE;
		next.free(block);
	}
	return agrees;
}

/* Whether the file name in a path begins with `start`. */
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

/* Operators that are neither a C++ runtime's nor the allocator's may have a pool, and cut it as they like. */
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

static void write_name(const char *path)
{
	char *to = memory.head->allocator;
	const char *name = path;

	for (; *path; path++) {
		if (*path == '/')
			name = path + 1;
	}
	for (size_t i = 0; i < sizeof memory.head->allocator - 1 && name[i]; i++)
		to[i] = name[i];
}

void allocator_look_up(void)
{
	modules_extent((void *)next.malloc, &allocator_start, &allocator_bytes);
}

/* Blocks are allocated for this once in the life of a program: a fork's child may begin inside the allocator, which is the same. */
void allocator_probe(void)
{
	static bool probed, tight;
	const void *malloc_of_program =
		(void *)(next.other_malloc != NULL ? next.other_malloc : next.malloc);
	const char *path = modules_file_of(malloc_of_program);

	allocator_is_libc = is_named(path, LIBC_FILE);
	write_name(allocator_is_libc ? LIBC_NAME : path);
	if (!probed) {
		tight = next.other_malloc != NULL || operators_may_pack() ||
			(!allocator_is_libc && packs_tightly());
		next.usable_in_header = allocator_is_libc && usable_in_header();
		probed = true;
	}
	blocks_start(tight);
	memory.head->granule_shift = BLOCKS_GRANULE_SHIFT;
}
