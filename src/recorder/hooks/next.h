/* SPDX-License-Identifier: Apache-2.0 */
/* The next definitions in the process, which our hooks forward to. Looked up by name on the first call of any hook. */
#ifndef RECORDER_HOOKS_NEXT_H
#define RECORDER_HOOKS_NEXT_H

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/compiler.h"

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		     const posix_spawnattr_t *, char *const *, char *const *);

struct next {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	bool is_recorder; /* these belong to another recorder: ours stays off */
	/* The definitions that the program and libc itself reach by these names if one precedes ours, e.g. in the executable;
	 * NULL: they reach ours. */
	void *(*other_malloc)(size_t);
	void *(*other_realloc)(void *, size_t);
	size_t (*usable)(void *); /* NULL: not from the same allocator as the functions above */
	bool usable_in_header;	  /* libc_header_size returns the same value */
	size_t (*malloc_usable_size)(void *);
	void (*free_sized)(void *, size_t);		    /* NULL before C23 */
	void (*free_aligned_sized)(void *, size_t, size_t); /* NULL before C23 */
	char *(*duplicate)(const char *);	       /* strdup, but never the allocator's own */
	char *(*duplicate_most)(const char *, size_t); /* strndup */
	bool avoids_duplicate,
		avoids_duplicate_most; /* they are not those that a program finds without us */
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	void *(*sbrk)(intptr_t);
	int (*brk)(void *);
	pid_t (*fork)(void);
	pid_t (*fork_alone)(void); /* _Fork; NULL before glibc 2.34 */
	int (*execve)(const char *, char *const *, char *const *);
	int (*execvpe)(const char *, char *const *, char *const *);
	int (*fexecve)(int, char *const *, char *const *);
	int (*execveat)(int, const char *, char *const *, char *const *,
			int); /* NULL before glibc 2.34 */
	spawn_fn *posix_spawn;
	spawn_fn *posix_spawnp;
	int (*system)(const char *);
	int (*mlockall)(int);
	int (*prctl)(int, ...);
	long (*syscall)(long, ...);
	size_t (*confstr)(int, char *, size_t);
	int (*setrlimit)(int, const struct rlimit *);
	int (*prlimit)(pid_t, int, const struct rlimit *, struct rlimit *);
	void (*exit_now)(int);
	void (*exit_quickly)(int);
	FILE *(*popen)(const char *, const char *);
};
extern HIDDEN struct next next;

/* Set once everything in `next` may be used. */
extern HIDDEN bool next_is_found;
void next_find(void);

/* `next`, for callers that may be the first to use it. */
static inline const struct next *next_found(void)
{
	if (UNLIKELY(!__atomic_load_n(&next_is_found, __ATOMIC_ACQUIRE)))
		next_find();
	return &next;
}
#endif
