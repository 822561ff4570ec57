/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that sizes of zero, around every power of two, across 4096 and up to 300 MiB are counted to the byte, and that
 * a program may use all of what malloc_usable_size says. */
#include "target.h"
#include <malloc.h>

static struct truth zero_truth = TRUTH(take_zero);
static struct truth edge_truth = TRUTH(take_edge);
static struct truth page_truth = TRUTH(take_near_4096);
static struct truth large_truth = TRUTH(take_large);
static struct truth usable_truth = TRUTH(take_usable);
static struct truth grow_truth = TRUTH(grow_across_4096);

#define TAKE(name, truth)                                                                          \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = malloc(n);                                                               \
		KEEP(p);                                                                           \
		CHECK(p);                                                                          \
		CHECK((uintptr_t)p % 16 == 0);                                                     \
		truth_take(&truth, n);                                                             \
		return p;                                                                          \
	}
TAKE(take_zero, zero_truth)
TAKE(take_edge, edge_truth)
TAKE(take_near_4096, page_truth)
TAKE(take_large, large_truth)
TAKE(take_usable, usable_truth)

static NOINLINE void *grow_across_4096(void *p, size_t n)
{
	void *q = realloc(p, n);
	KEEP(q);
	truth_take(&grow_truth, n);
	return q;
}

static NOINLINE void keep_or_free(struct truth *truth, void *p, size_t n, int keep)
{
	if (keep)
		return;
	free(p);
	truth_drop(truth, n);
}

int main(void)
{
	static void *near[200];
	void *p = NULL;

	for (int i = 0; i < 100; i++)
		keep_or_free(&zero_truth, take_zero(0), 0, i % 2);
	for (int shift = 4; shift <= 22; shift++)
		for (int d = -2; d <= 2; d++) {
			size_t n = ((size_t)1 << shift) + (size_t)d;
			keep_or_free(&edge_truth, take_edge(n), n, d == 0 && shift < 18);
		}
	for (size_t i = 0; i < 200; i++)
		near[i] = take_near_4096(3996 + i);
	for (size_t i = 0; i < 200; i += 2)
		keep_or_free(&page_truth, near[i], 3996 + i, 0);
	for (size_t n = 4000; n < 4200; n++) {
		if (p)
			truth_drop(&grow_truth, n - 1);
		p = grow_across_4096(p, n);
	}
	keep_or_free(&large_truth, take_large(64 << 10), 64 << 10, 0);
	keep_or_free(&large_truth, take_large(1 << 20), 1 << 20, 1);
	keep_or_free(&large_truth, take_large(300 << 20), 300 << 20, 0);
	keep_or_free(&large_truth, take_large(300 << 20), 300 << 20, 1);
	for (size_t n = 1; n < 6000; n += 7) {
		char *q = take_usable(n);
		size_t usable = malloc_usable_size(q);
		CHECK(usable >= n);
		memset(q, 0xa5, usable);
		CHECK(malloc_usable_size(q) == usable);
		keep_or_free(&usable_truth, q, n, n % 2);
	}
	truth_print(&zero_truth, "");
	truth_print(&edge_truth, "");
	truth_print(&page_truth, "");
	truth_print(&large_truth, "");
	truth_print(&usable_truth, "");
	truth_print(&grow_truth, "");
	return 0;
}
