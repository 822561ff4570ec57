// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17 -fsized-deallocation
// Proves that each way to take memory, of C and of C++, counts one block of the size that was asked for, whoever defines
// it and however they call each other. test_allocators.py runs it with other allocators than glibc's.
#include "target.h"
#include <malloc.h>
#include <new>

using std::align_val_t;
using std::nothrow;

enum { ROUNDS = 600 };
static constexpr align_val_t A64{ 64 }, A4096{ 4096 };

extern "C" {
#define WAY(name, expression)                                                                      \
	static struct truth truth_##name = TRUTH(name);                                            \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = expression;                                                              \
		KEEP(p);                                                                           \
		CHECK(p);                                                                          \
		truth_take(&truth_##name, n);                                                      \
		return p;                                                                          \
	}

static void *by_posix_memalign(size_t alignment, size_t n)
{
	void *p = nullptr;
	return posix_memalign(&p, alignment, n) == 0 ? p : nullptr;
}

WAY(way_malloc, malloc(n))
WAY(way_calloc, calloc(n, 1))
WAY(way_calloc_many, calloc(1, n))
WAY(way_realloc_null, realloc(nullptr, n))
WAY(way_reallocarray, reallocarray(nullptr, n, 1))
WAY(way_posix_memalign, by_posix_memalign(128, n))
WAY(way_aligned_alloc, aligned_alloc(64, n))
WAY(way_memalign, memalign(64, n))
WAY(way_valloc, valloc(n))
WAY(way_new, operator new(n))
WAY(way_new_array, operator new[](n))
WAY(way_new_nothrow, operator new(n, nothrow))
WAY(way_new_array_nothrow, operator new[](n, nothrow))
WAY(way_new_aligned, operator new(n, A64))
WAY(way_new_array_aligned, operator new[](n, A4096))
WAY(way_new_aligned_nothrow, operator new(n, A64, nothrow))
WAY(way_new_array_aligned_nothrow, operator new[](n, A64, nothrow))

static struct truth grow_truth = TRUTH(grow);
static NOINLINE void *grow(void *p, size_t n)
{
	p = realloc(p, n);
	KEEP(p);
	CHECK(p);
	truth_take(&grow_truth, n);
	return p;
}
}

static void by_free(void *p, size_t, int)
{
	free(p);
}
static void by_delete(void *p, size_t n, int sized)
{
	if (sized == 2)
		operator delete(p, nothrow);
	else if (sized)
		operator delete(p, n);
	else
		operator delete(p);
}
static void by_delete_array(void *p, size_t n, int sized)
{
	if (sized == 2)
		operator delete[](p, nothrow);
	else if (sized)
		operator delete[](p, n);
	else
		operator delete[](p);
}
static void by_delete_64(void *p, size_t n, int sized)
{
	if (sized)
		operator delete(p, n, A64);
	else
		operator delete(p, A64);
}
static void by_delete_array_64(void *p, size_t n, int sized)
{
	if (sized)
		operator delete[](p, n, A64);
	else
		operator delete[](p, A64);
}
static void by_delete_array_4096(void *p, size_t n, int sized)
{
	if (sized)
		operator delete[](p, n, A4096);
	else
		operator delete[](p, A4096);
}

static const struct {
	struct truth *truth;
	void *(*take)(size_t);
	void (*give)(void *, size_t, int);
	uintptr_t alignment;
} ways[] = {
	{ &truth_way_malloc, way_malloc, by_free, 8 },
	{ &truth_way_calloc, way_calloc, by_free, 8 },
	{ &truth_way_calloc_many, way_calloc_many, by_free, 8 },
	{ &truth_way_realloc_null, way_realloc_null, by_free, 8 },
	{ &truth_way_reallocarray, way_reallocarray, by_free, 8 },
	{ &truth_way_posix_memalign, way_posix_memalign, by_free, 128 },
	{ &truth_way_aligned_alloc, way_aligned_alloc, by_free, 64 },
	{ &truth_way_memalign, way_memalign, by_free, 64 },
	{ &truth_way_valloc, way_valloc, by_free, 4096 },
	{ &truth_way_new, way_new, by_delete, 8 },
	{ &truth_way_new_array, way_new_array, by_delete_array, 8 },
	{ &truth_way_new_nothrow, way_new_nothrow, by_delete, 8 },
	{ &truth_way_new_array_nothrow, way_new_array_nothrow, by_delete_array, 8 },
	{ &truth_way_new_aligned, way_new_aligned, by_delete_64, 64 },
	{ &truth_way_new_array_aligned, way_new_array_aligned, by_delete_array_4096, 4096 },
	{ &truth_way_new_aligned_nothrow, way_new_aligned_nothrow, by_delete_64, 64 },
	{ &truth_way_new_array_aligned_nothrow, way_new_array_aligned_nothrow, by_delete_array_64,
	  64 },
};
enum { WAYS = sizeof ways / sizeof *ways };

static void use(const size_t way, int round)
{
	/* Multiples of 64, as aligned_alloc wants, and a few very large ones. */
	size_t n = static_cast<size_t>(round % 50 == 49 ? round << 12 : (1 + round % 37) * 64);
	char *p = static_cast<char *>(ways[way].take(n));

	CHECK(reinterpret_cast<uintptr_t>(p) % ways[way].alignment == 0);
	p[0] = p[n - 1] = static_cast<char>(round);
	if (round % 4 == 3)
		return; /* stays */
	truth_drop(ways[way].truth, n);
	if (round % 4 == 2 && ways[way].give == by_free) {
		p = static_cast<char *>(grow(p, n + n / 2));
		CHECK(p[0] == static_cast<char>(round) && p[n - 1] == static_cast<char>(round));
		p = static_cast<char *>(grow(p, n / 2));
		truth_drop(&grow_truth, n + n / 2);
		free(p);
		truth_drop(&grow_truth, n / 2);
		return;
	}
	ways[way].give(p, n, round % 3);
}

int main()
{
	for (int round = 0; round < ROUNDS; round++)
		for (size_t way = 0; way < WAYS; way++)
			use(way, round);
	for (size_t way = 0; way < WAYS; way++)
		truth_print(ways[way].truth, "");
	truth_print(&grow_truth, "");
	return 0;
}
