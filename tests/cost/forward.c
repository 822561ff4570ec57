/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a library can do which stands before malloc and free: what it adds, every recorder adds (sampled.py --mode forward). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*next_malloc)(size_t), *(*next_calloc)(size_t, size_t),
	*(*next_realloc)(void *, size_t);
static void (*next_free)(void *);

__attribute__((constructor)) static void find(void)
{
	next_malloc = dlsym(RTLD_NEXT, "malloc");
	next_calloc = dlsym(RTLD_NEXT, "calloc");
	next_realloc = dlsym(RTLD_NEXT, "realloc");
	next_free = dlsym(RTLD_NEXT, "free");
}

void *malloc(size_t bytes)
{
	if (__builtin_expect(!next_malloc, 0))
		find();
	return next_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	if (__builtin_expect(!next_calloc, 0))
		find();
	return next_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
	if (__builtin_expect(!next_realloc, 0))
		find();
	return next_realloc(block, bytes);
}

void free(void *block)
{
	if (__builtin_expect(!next_free, 0))
		find();
	next_free(block);
}
