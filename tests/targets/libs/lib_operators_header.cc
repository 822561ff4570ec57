// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// Operators that keep a block's size in front of it: what they return is not what malloc gave.
#include "target.h"
#include <new>

extern "C" {
struct truth header_truth = TRUTH(with_header);
}

extern "C" NOINLINE void *with_header(size_t n)
{
	size_t *p = static_cast<size_t *>(malloc(n + 16));
	KEEP(p);
	truth_take(&header_truth, n + 16);
	p[0] = n;
	return p + 2;
}

void *operator new(size_t n)
{
	void *p = with_header(n);
	KEEP(p);
	return p;
}
void operator delete(void *p) noexcept
{
	size_t *header = static_cast<size_t *>(p) - 2;
	truth_drop(&header_truth, header[0] + 16);
	free(header);
}
void operator delete(void *p, size_t n) noexcept
{
	CHECK(static_cast<size_t *>(p)[-2] == n);
	operator delete(p);
}
