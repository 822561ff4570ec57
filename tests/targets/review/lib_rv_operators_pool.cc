// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17 -nodefaultlibs -fno-exceptions -fno-rtti -lc
// A plugin with operators of its own, which hand out pieces of a pool and accept nothing else back.
#include "target.h"
#include <new>

static char pool[1 << 16];
static size_t used, returned;

void *operator new(size_t n)
{
	void *p = pool + used;
	used += (n + 15) & ~static_cast<size_t>(15);
	CHECK(used <= sizeof pool);
	return p;
}
void operator delete(void *p) noexcept
{
	CHECK(p >= pool && p < pool + sizeof pool);
	returned++;
}
void operator delete(void *p, size_t) noexcept
{
	operator delete(p);
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
