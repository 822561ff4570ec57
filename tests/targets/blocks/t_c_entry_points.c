/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that every C entry point is counted once, with the size that was asked for, at the function that called it. */
#include "target.h"
#include <dlfcn.h>
#include <malloc.h>

static struct truth malloc_truth = TRUTH(by_malloc);
static struct truth calloc_truth = TRUTH(by_calloc);
static struct truth realloc_truth = TRUTH(by_realloc);
static struct truth reallocarray_truth = TRUTH(by_reallocarray);
static struct truth posix_memalign_truth = TRUTH(by_posix_memalign);
static struct truth aligned_alloc_truth = TRUTH(by_aligned_alloc);
static struct truth memalign_truth = TRUTH(by_memalign);
static struct truth valloc_truth = TRUTH(by_valloc);
static struct truth pvalloc_truth = TRUTH(by_pvalloc);

static NOINLINE void *by_malloc(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&malloc_truth, n);
	return p;
}

static NOINLINE void *by_calloc(size_t n)
{
	unsigned char *p = calloc(n, 3);
	KEEP(p);
	truth_take(&calloc_truth, n * 3);
	for (size_t i = 0; i < n * 3; i++)
		CHECK(p[i] == 0);
	return p;
}

static NOINLINE void *by_realloc(size_t n)
{
	void *p = realloc(NULL, n);
	KEEP(p);
	truth_take(&realloc_truth, n);
	return p;
}

static NOINLINE void *by_reallocarray(size_t n)
{
	void *p = reallocarray(NULL, n, 5);
	KEEP(p);
	truth_take(&reallocarray_truth, n * 5);
	return p;
}

static NOINLINE void *by_posix_memalign(size_t n)
{
	void *p = NULL;
	CHECK(posix_memalign(&p, 128, n) == 0);
	KEEP(p);
	truth_take(&posix_memalign_truth, n);
	CHECK((uintptr_t)p % 128 == 0);
	return p;
}

static NOINLINE void *by_aligned_alloc(size_t n)
{
	size_t rounded = (n + 255) / 256 * 256;
	void *p = aligned_alloc(256, rounded);
	KEEP(p);
	truth_take(&aligned_alloc_truth, rounded);
	CHECK((uintptr_t)p % 256 == 0);
	return p;
}

static NOINLINE void *by_memalign(size_t n)
{
	void *p = memalign(1024, n);
	KEEP(p);
	truth_take(&memalign_truth, n);
	CHECK((uintptr_t)p % 1024 == 0);
	return p;
}

static NOINLINE void *by_valloc(size_t n)
{
	void *p = valloc(n);
	KEEP(p);
	truth_take(&valloc_truth, n);
	CHECK((uintptr_t)p % 4096 == 0);
	return p;
}

static NOINLINE void *by_pvalloc(size_t n)
{
	void *p = pvalloc(n);
	KEEP(p);
	truth_take(&pvalloc_truth, n);
	CHECK((uintptr_t)p % 4096 == 0);
	return p;
}

static const struct {
	void *(*take)(size_t);
	struct truth *truth;
} entry[] = {
	{ by_malloc, &malloc_truth },
	{ by_calloc, &calloc_truth },
	{ by_realloc, &realloc_truth },
	{ by_reallocarray, &reallocarray_truth },
	{ by_posix_memalign, &posix_memalign_truth },
	{ by_aligned_alloc, &aligned_alloc_truth },
	{ by_memalign, &memalign_truth },
	{ by_valloc, &valloc_truth },
	{ by_pvalloc, &pvalloc_truth },
};
enum { ENTRIES = sizeof entry / sizeof *entry, ROUNDS = 50 };

int main(void)
{
	static void *block[ENTRIES][ROUNDS];
	static size_t bytes[ENTRIES][ROUNDS];

	for (int e = 0; e < ENTRIES; e++) {
		for (int i = 0; i < ROUNDS; i++) {
			size_t before = entry[e].truth->bytes;
			block[e][i] = entry[e].take((size_t)(7 + 61 * i));
			bytes[e][i] = entry[e].truth->bytes - before;
			CHECK(malloc_usable_size(block[e][i]) >= bytes[e][i]);
			memset(block[e][i], 0x5a, bytes[e][i]);
		}
	}
	CHECK(malloc_usable_size(NULL) == 0);
	free(NULL);
	/* Every third stays. */
	for (int i = ROUNDS - 1; i >= 0; i--) {
		for (int e = 0; e < ENTRIES; e++) {
			if (i % 3 == 0)
				continue;
			free(block[e][i]);
			truth_drop(entry[e].truth, bytes[e][i]);
		}
	}
	for (int e = 0; e < ENTRIES; e++)
		truth_print(entry[e].truth, "");
	return 0;
}
