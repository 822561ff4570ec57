/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that hundreds of thousands of the smallest blocks, freed and taken in between, are each told from their
 * neighbours: allocators pack them 8, 16 or 24 bytes apart. test_allocators.py runs it with such allocators. */
#include "target.h"
#include <malloc.h>

enum { BLOCKS = 200000, MOST = 24 };
static struct truth malloc_truth = TRUTH(take_tiny), calloc_truth = TRUTH(take_tiny_zeroed);
static struct truth resize_truth = TRUTH(resize);

struct tiny {
	unsigned char *at;
	size_t bytes;
	struct truth *truth;
	unsigned char mark;
};
static struct tiny tiny[BLOCKS];
static uint64_t fragmentation;

static NOINLINE void *take_tiny(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	CHECK(p);
	truth_take(&malloc_truth, n);
	fragmentation += malloc_usable_size(p) - n;
	return p;
}

static NOINLINE void *take_tiny_zeroed(size_t n)
{
	void *p = calloc(1, n);
	KEEP(p);
	CHECK(p);
	truth_take(&calloc_truth, n);
	return p;
}

/* Within the tiny sizes, out of them and back: the block may stay where it is. */
static NOINLINE void *resize(void *p, size_t n)
{
	p = realloc(p, n);
	KEEP(p);
	CHECK(p);
	truth_take(&resize_truth, n);
	return p;
}

static void fill(struct tiny *t, uint32_t random)
{
	t->bytes = 1 + random % MOST;
	t->truth = random >> 16 & 1 ? &malloc_truth : &calloc_truth;
	t->at = random >> 16 & 1 ? take_tiny(t->bytes) : take_tiny_zeroed(t->bytes);
	t->mark = (unsigned char)random;
	memset(t->at, t->mark, t->bytes);
}

static void empty(struct tiny *t)
{
	for (size_t i = 0; i < t->bytes; i++)
		CHECK(t->at[i] == t->mark);
	free(t->at);
	truth_drop(t->truth, t->bytes);
	t->at = NULL;
}

static void change(struct tiny *t, uint32_t random)
{
	size_t n = 1 + random % (3 * MOST);

	truth_drop(t->truth, t->bytes);
	t->at = resize(t->at, n);
	for (size_t i = 0; i < t->bytes && i < n; i++)
		CHECK(t->at[i] == t->mark);
	t->truth = &resize_truth;
	t->bytes = n;
	memset(t->at, t->mark, n);
}

int main(void)
{
	uint32_t seed = 2463534242u;

	for (size_t i = 0; i < BLOCKS; i++) {
		fill(&tiny[i], next_random(&seed));
		struct tiny *other = &tiny[next_random(&seed) % (i + 1)];
		uint32_t what = next_random(&seed) % 4;
		if (what == 0 && other->at)
			empty(other);
		else if (what == 1 && other->at)
			change(other, next_random(&seed));
		else if (!other->at)
			fill(other, next_random(&seed));
	}
	for (size_t i = 0; i < BLOCKS; i += 1 + next_random(&seed) % 3)
		if (tiny[i].at)
			empty(&tiny[i]);
	char more[64];
	snprintf(more, sizeof more, "fragmentation_bytes=%lu", (unsigned long)fragmentation);
	truth_print(&malloc_truth, more);
	truth_print(&calloc_truth, "");
	truth_print(&resize_truth, "");
	return 0;
}
