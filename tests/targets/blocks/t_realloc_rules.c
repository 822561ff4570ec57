/* SPDX-License-Identifier: Apache-2.0 */
/* Proves the meaning of realloc: a call with the full new size and a free of the old block, which changes hands; to zero
 * it is one free; from nothing it is one call. */
#include "target.h"

static struct truth born_truth = TRUTH(take_born);
static struct truth grow_truth = TRUTH(grow);
static struct truth array_truth = TRUTH(grow_array);
static struct truth null_truth = TRUTH(from_nothing);
static struct truth zero_truth = TRUTH(take_for_zero);
static struct truth chain_truth = TRUTH(chain_step);
static unsigned long moved, grown, shrunk, reallocs, old_bytes, new_bytes;

static NOINLINE void *take_born(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&born_truth, n);
	return p;
}

static NOINLINE void *grow(void *p, size_t old, size_t n)
{
	uintptr_t before = (uintptr_t)p;
	void *q = realloc(p, n);
	KEEP(q);
	truth_drop(&born_truth, old);
	truth_take(&grow_truth, n);
	reallocs++;
	moved += (uintptr_t)q != before;
	grown += n > old;
	shrunk += n < old;
	old_bytes += old;
	new_bytes += n;
	return q;
}

static NOINLINE void *grow_array(void *p, size_t n)
{
	void *q = reallocarray(p, n, 16);
	KEEP(q);
	truth_take(&array_truth, n * 16);
	return q;
}

static NOINLINE void *from_nothing(size_t n)
{
	void *p = realloc(NULL, n);
	KEEP(p);
	truth_take(&null_truth, n);
	return p;
}

static NOINLINE void *take_for_zero(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&zero_truth, n);
	return p;
}

static NOINLINE void to_zero(void *p, size_t n)
{
	volatile size_t zero = 0;
	void *q = realloc(p, zero);
	KEEP(q);
	CHECK(q == NULL); /* glibc: the block is freed */
	truth_drop(&zero_truth, n);
}

static NOINLINE void *chain_step(void *p, size_t old, size_t n)
{
	void *q = realloc(p, n);
	KEEP(q);
	if (old)
		truth_drop(&chain_truth, old);
	truth_take(&chain_truth, n);
	return q;
}

static NOINLINE void different_sites(void)
{
	for (size_t i = 1; i <= 200; i++) {
		size_t old = i * 37 % 3000 + 1, n = i * 91 % 9000 + 1;
		char *p = take_born(old);
		memset(p, (int)i, old);
		p = grow(p, old, n);
		for (size_t k = 0; k < (old < n ? old : n); k++)
			CHECK(p[k] == (char)i);
		if (i % 2) {
			free(p);
			truth_drop(&grow_truth, n);
		}
	}
}

static NOINLINE void one_site_grows_and_shrinks(void)
{
	void *p = NULL;
	size_t old = 0;

	for (size_t n = 16; n < (1 << 20); n += n / 3) {
		p = chain_step(p, old, n);
		old = n;
	}
	for (size_t n = 1 << 19; n > 16; n -= n / 3) {
		p = chain_step(p, old, n);
		old = n;
	}
	free(p);
	truth_drop(&chain_truth, old);
}

int main(void)
{
	char more[200];

	different_sites();
	one_site_grows_and_shrinks();
	for (size_t i = 1; i <= 100; i++) {
		void *p = take_born(i);
		p = grow_array(p, i);
		truth_drop(&born_truth, i);
		free(p);
		truth_drop(&array_truth, i * 16);
		free(from_nothing(i * 3));
		truth_drop(&null_truth, i * 3);
		to_zero(take_for_zero(i * 5), i * 5);
	}
	snprintf(
		more, sizeof more,
		"realloc.calls=%lu realloc.moved_calls=%lu realloc.grown_calls=%lu realloc.shrunk_calls=%lu "
		"realloc.old_bytes=%lu realloc.new_bytes=%lu",
		reallocs, moved, grown, shrunk, old_bytes, new_bytes);
	truth_print(&born_truth, "realloc.calls=0");
	truth_print(&grow_truth, more);
	truth_print(&array_truth, "realloc.calls=100");
	truth_print(&null_truth, "realloc.calls=0");
	truth_print(&zero_truth, "");
	truth_print(&chain_truth, "");
	return 0;
}
