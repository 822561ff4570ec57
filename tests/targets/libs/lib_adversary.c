/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared -fno-omit-frame-pointer -Wl,-z,lazy */
/* The adversary's library: code with frame pointers, a lazily bound function whose resolver allocates (the walk passes the
 * loader's _dl_runtime_resolve, whose frame hangs on rbx), and a constructor that the loader calls. */
#include "target.h"

unsigned long library_allocations;
void library_call(void (*function)(int), int depth);
void library_bind_lazily(void);
void lazily_bound(void);

static NOINLINE void library_leaf(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	free(p);
	library_allocations++;
}

static void bound(void)
{
	library_leaf(21);
	__asm__ volatile("" ::: "memory");
}

/* Runs inside the loader, at the first call of lazily_bound. */
__attribute__((used)) static void (*resolve_lazily_bound(void))(void)
{
	library_leaf(22);
	return bound;
}
void lazily_bound(void) __attribute__((ifunc("resolve_lazily_bound")));

NOINLINE void library_bind_lazily(void)
{
	lazily_bound();
	lazily_bound();
	__asm__ volatile("" ::: "memory");
}

NOINLINE void library_call(void (*function)(int), int depth)
{
	library_leaf((size_t)depth % 50u);
	function(depth);
	__asm__ volatile("" ::: "memory");
}

__attribute__((constructor)) static void begin(void)
{
	library_leaf(23);
	__asm__ volatile("" ::: "memory");
}

__attribute__((destructor)) static void end(void)
{
	library_leaf(24);
	__asm__ volatile("" ::: "memory");
}
