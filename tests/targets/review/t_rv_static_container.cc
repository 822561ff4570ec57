// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// needs: lib_rv_static_container
// Proves that nobody calls the program's operator new but the program: a library's operators with a static container see
// the program's blocks, no more.
#include "target.h"
#include <new>

extern "C" int rv_registered();
extern "C" {
static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = operator new(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}
}

int main()
{
	void *kept[100];

	say("%d registered at the start\n", rv_registered());
	for (size_t i = 0; i < 100; i++)
		kept[i] = take(i * 10);
	say("%d registered\n", rv_registered());
	for (size_t i = 0; i < 60; i++) {
		operator delete(kept[i]);
		truth_drop(&truth, i * 10);
	}
	say("%d registered at the end\n", rv_registered());
	truth_print(&truth, "");
	return 0;
}
