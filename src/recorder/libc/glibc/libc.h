/* SPDX-License-Identifier: Apache-2.0 */
/* glibc 2.28 or later. */
#ifndef RECORDER_LIBC_GLIBC_LIBC_H
#define RECORDER_LIBC_GLIBC_LIBC_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "recorder/arch/arch.h"

#define LIBC_NAME "glibc"
#define LIBC_FILE "libc.so.6"
#define LIBC_LOADER_FUNCTION "__tls_get_addr" /* defined by the loader itself */

#if !__GLIBC_PREREQ(2, 34)
int execveat(int folder, const char *path, char *const argv[], char *const envp[], int flags);
#endif

/* ---- the loaded objects ---- */

struct libc_object {
	struct link_map map;
};

/* In search order. At start-up, or under the loader's lock. NULL: no more. */
static inline const struct libc_object *libc_first_object(void)
{
	return (const struct libc_object *)_r_debug.r_map;
}

static inline const struct libc_object *libc_next_object(const struct libc_object *object)
{
	return (const struct libc_object *)object->map.l_next;
}

static inline uintptr_t libc_bias(const struct libc_object *object)
{
	return object->map.l_addr;
}

static inline const Elf64_Dyn *libc_dynamic(const struct libc_object *object)
{
	return object->map.l_ld;
}

/* "" or NULL for the executable. */
static inline const char *libc_path(const struct libc_object *object)
{
	return object->map.l_name;
}

static inline bool libc_is_executable(const struct libc_object *object)
{
	return object->map.l_prev == NULL && object->map.l_name[0] == 0;
}

/* ---- stacks ---- */

/* Where the kernel put argc; arguments, environment and the auxiliary vector follow. */
extern void *__libc_stack_end;

static inline uintptr_t *libc_argument_count(void)
{
	return __libc_stack_end;
}

/* The calling thread's control block, at the top of its stack. */
static inline uintptr_t libc_thread_block(void)
{
	return arch_thread_pointer();
}

/* ---- malloc ---- */

/* True if the word before a block holds its usable size, as in all versions; not if the block has its own mapping. */
static ALWAYS_INLINE bool libc_header_has_size(const void *block)
{
	enum { IS_MAPPED = 2 };

	return !(((const uint64_t *)block)[-1] & IS_MAPPED);
}

static ALWAYS_INLINE uint64_t libc_header_size(const void *block)
{
	enum { FLAGS = 7 };

	return (((const uint64_t *)block)[-1] & ~(uint64_t)FLAGS) - sizeof(uint64_t);
}

/* New in C23. */
#if !__GLIBC_PREREQ(2, 43)
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
#endif

#endif
