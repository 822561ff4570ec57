// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// needs: lib_rv_basic_malloc
// Proves that an allocator library which defines malloc, free, calloc and realloc alone is recorded right: no other
// allocator is asked about its blocks, and libstdc++'s operators reach it.
#include "target.h"
#include <string>
#include <vector>

extern "C" {
static struct truth c_truth = TRUTH(take_by_malloc), new_truth = TRUTH(take_by_new);
static struct truth calloc_truth = TRUTH(take_by_calloc), grow_truth = TRUTH(grow);

static NOINLINE void *take_by_malloc(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&c_truth, n);
	return p;
}

static NOINLINE void *take_by_new(size_t n)
{
	void *p = operator new(n);
	KEEP(p);
	truth_take(&new_truth, n);
	return p;
}

static NOINLINE void *take_by_calloc(size_t n)
{
	void *p = calloc(n, 3);
	KEEP(p);
	truth_take(&calloc_truth, n * 3);
	return p;
}

static NOINLINE void *grow(void *p, size_t n)
{
	p = realloc(p, n);
	KEEP(p);
	truth_take(&grow_truth, n);
	return p;
}
}

int main()
{
	for (size_t n = 1; n <= 1000; n++) {
		free(take_by_malloc(n));
		truth_drop(&c_truth, n);
		operator delete(take_by_new(n));
		truth_drop(&new_truth, n);
		char *p = static_cast<char *>(take_by_calloc(n));
		for (size_t i = 0; i < n * 3; i++)
			CHECK(p[i] == 0);
		free(p);
		truth_drop(&calloc_truth, n * 3);
		p = static_cast<char *>(take_by_malloc(n));
		p[n - 1] = static_cast<char>(n);
		truth_drop(&c_truth, n);
		p = static_cast<char *>(grow(p, n * 2));
		CHECK(p[n - 1] == static_cast<char>(n));
	}
	std::vector<std::string> words;
	for (size_t n = 0; n < 1000; n++)
		words.emplace_back(100 + n, 'x');
	CHECK(words.back().size() == 1099);
	truth_print(&c_truth, "fragmentation_bytes=0");
	truth_print(&new_truth, "fragmentation_bytes=0");
	truth_print(&calloc_truth, "fragmentation_bytes=0");
	truth_print(&grow_truth, "fragmentation_bytes=0");
	return 0;
}
