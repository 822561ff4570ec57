/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between C libraries, including their allocator and loader; README.md lists what a further one needs.
 *
 * One binary serves glibc (2.28 or later) and musl (1.2.2 or later): it imports only what both define, and decides at run time by weak
 * symbols that only one of them has. So LD_PRELOAD can name it for any program of a process tree. */
#ifndef RECORDER_LIBC_LIBC_H
#define RECORDER_LIBC_LIBC_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/compiler.h"
#include "recorder/arch/arch.h"

/* ---- the loaded objects ---- */

/* The loader's descriptor of an object: a block that it frees when the object is unloaded. musl unloads none. */
struct libc_object {
	struct link_map map;
};

struct libc_found {
	const struct libc_object *object;
	uintptr_t start, end, bias;
	const void *dynamic;
	const uint8_t *unwind_header; /* .eh_frame_hdr; NULL: none */
};
/* Finds the object that contains an address. Any thread, any time: no lock. False: none, or before libc_find_start. */
bool libc_find(uintptr_t address, struct libc_found *ret);
void libc_find_start(void);

/* The address of a thread-local variable in the calling thread. words: where the loader has stored what it knows of it for code that
 * uses it, as that relocation says (ARCH_RELOCATION_TLS_*). *ret 0: the thread has no block for it yet. False: unreadable. Any thread, any
 * time. */
bool libc_tls_find(long pid, uint32_t relocation, uintptr_t words, uintptr_t *ret);
/* The same of a variable that the executable defines, by the value of its symbol. */
bool libc_tls_find_in_executable(long pid, uint64_t value, uintptr_t *ret);

/* The same under a lock of ours, to check what libc_find has said before. musl unloads nothing: no system call. */
bool libc_find_again(uintptr_t address, struct libc_found *ret);

/* What the loader tells debuggers. NULL: a program without a loader. */
const struct r_debug *libc_debug(void);

/* Known from libc_find_start on. */
extern HIDDEN bool libc_musl;

static inline bool libc_is_musl(void)
{
	return libc_musl;
}

/* In search order. At start-up, or under the loader's lock. NULL: no more. */
static inline const struct libc_object *libc_first_object(void)
{
	const struct r_debug *debug = libc_debug();

	return debug != NULL ? (const struct libc_object *)debug->r_map : NULL;
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

/* "" or NULL for the executable in glibc, its path in musl. */
static inline const char *libc_path(const struct libc_object *object)
{
	return object->map.l_name;
}

static inline bool libc_is_executable(const struct libc_object *object)
{
	return object->map.l_prev == NULL && (libc_is_musl() || object->map.l_name[0] == 0);
}

/* musl's libc is its loader, and what programs need under any name that begins with "libc.". */
static inline bool libc_is_own_name(const char *name)
{
	return libc_is_musl() && __builtin_memcmp(name, "libc.", 5) == 0;
}

static inline bool libc_is_own_loader(const struct libc_object *object)
{
	return object->map.l_addr == libc_debug()->r_ldbase;
}

/* A function that only the loader defines. musl's loader is libc itself, and allocates past the hooks: NULL. */
static inline const char *libc_loader_function(void)
{
	return libc_is_musl() ? NULL : "__tls_get_addr";
}

/* A function that no other object defines. */
#define LIBC_FUNCTION "getauxval"

static inline const char *libc_name(void)
{
	return libc_is_musl() ? "musl" : "glibc";
}

/* Where execvp searches if PATH is not set. */
static inline const char *libc_default_path(void)
{
	return libc_is_musl() ? "/usr/local/bin:/bin:/usr/bin" : "/bin:/usr/bin";
}

/* The shell that execvp, but not posix_spawnp, starts for a file that the kernel refuses to execute (ENOEXEC). "": none. */
static inline const char *libc_text_shell(void)
{
	return libc_is_musl() ? "" : "/bin/sh";
}

/* ---- stacks ---- */

/* Where the kernel put argc; arguments, environment and the auxiliary vector follow. */
uintptr_t *libc_argument_count(void);

/* The calling thread's control block, at the top of its stack. */
static inline uintptr_t libc_thread_block(void)
{
	return arch_thread_pointer();
}

/* ---- malloc ---- */

/* True if the word before a block of glibc holds its usable size, as in all versions; not if the block has its own mapping. */
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

/* True if a block of glibc with this usable size can have it in its header: chunks are multiples of 16 bytes, with 8 in use. */
static inline bool libc_may_be_header_size(uint64_t usable)
{
	enum { CHUNK_UNIT = 2 * sizeof(uint64_t) };

	return usable % CHUNK_UNIT == sizeof(uint64_t);
}

/* The headers that the recorder is compiled with, of whichever library: what they do not declare, and exports.map has. */
#ifdef __GLIBC__
#define LIBC_DECLARES(major, minor) __GLIBC_PREREQ(major, minor)
typedef __rlimit_resource_t libc_limited;
#else
#define LIBC_DECLARES(major, minor) 0
typedef int libc_limited;
/* Macros there. */
#undef mmap64
#undef setrlimit64
#undef prlimit64
#undef rlimit64
#define rlimit64 rlimit
void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int setrlimit64(int resource, const struct rlimit *limit);
int prlimit64(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old);
void *pvalloc(size_t size);
#endif

#if !LIBC_DECLARES(2, 34)
int execveat(int folder, const char *path, char *const argv[], char *const envp[], int flags);
#endif

/* New in C23. */
#if !LIBC_DECLARES(2, 43)
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
#endif

#endif
