// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17 -nodefaultlibs -fno-exceptions -fno-rtti -lc
// A plugin with operators of its own, which call malloc and free; it needs no libstdc++.
#include "target.h"
#include <new>

extern "C" {
struct truth rv_truth = TRUTH(rv_malloc_body);

static NOINLINE void *rv_malloc_body(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&rv_truth, n);
	return p;
}

static NOINLINE void rv_free_body(void *p)
{
	truth_drop(&rv_truth, sizeof(int[10]));
	free(p);
	__asm__ volatile("" ::: "memory");
}
}

void *operator new(size_t n)
{
	void *p = rv_malloc_body(n);
	KEEP(p);
	return p;
}
void operator delete(void *p) noexcept
{
	rv_free_body(p);
}
void operator delete(void *p, size_t) noexcept
{
	rv_free_body(p);
}

struct thing {
	int numbers[10];
};

/* Whether the operator is the last thing that rv_drop does: then the compiler makes a jump of the call. */
#ifdef RV_TAIL
#define NOT_LAST(x)
#else
#define NOT_LAST(x) KEEP(x)
#endif

extern "C" void *rv_make()
{
	thing *p = new thing;
	KEEP(p);
	return p;
}
extern "C" void rv_drop(void *p)
{
	delete static_cast<thing *>(p);
	NOT_LAST(p);
}
