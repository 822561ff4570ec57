/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages for large arrays: for those that are accessed at random, and those that are filled at once. Pages of 4 KiB cost a fault each,
 * and random accesses to them a search in the page tables. */
#ifndef UTIL_HUGE_PAGES_H
#define UTIL_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Asks for huge pages for new memory of malloc; NULL is ignored. Smaller arrays are not worth it. No realloc should follow: it would copy
 * what it moves otherwise. */
static inline void huge_pages_advise(void *at, size_t bytes)
{
	enum { PAGE = 4096, LEAST = 4 << 20 };
	uintptr_t start = ((uintptr_t)at + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	uintptr_t end = ((uintptr_t)at + bytes) & ~(uintptr_t)(PAGE - 1);

	if (at && end > start && end - start >= LEAST)
		(void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}

/* As malloc and calloc; free() frees it. */
static inline void *huge_malloc(size_t bytes)
{
	void *at = malloc(bytes);

	huge_pages_advise(at, bytes);
	return at;
}

static inline void *huge_calloc(size_t count, size_t item_bytes)
{
	void *at = calloc(count, item_bytes);

	huge_pages_advise(at, count * item_bytes);
	return at;
}

#endif
