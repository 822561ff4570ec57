// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// Proves that operator new with an alignment that is no power of two throws as ever, and that the calls after it, from
// the same function, are recorded.
#include "target.h"
#include <new>

extern "C" {
static NOINLINE int throw_and_take(size_t alignment, int count)
{
	int caught = 0;

	try {
		void *p = operator new(100, std::align_val_t(alignment));
		KEEP(p);
	} catch (const std::bad_alloc &) {
		caught = 1;
	}
	void *none = operator new(100, std::align_val_t(alignment), std::nothrow);
	KEEP(none);
	CHECK(none == nullptr);
	for (int i = 0; i < count; i++) {
		void *p = malloc(777);
		KEEP(p);
		void *q = operator new(33);
		KEEP(q);
		operator delete(q);
	}
	return caught;
}
}

int main()
{
	static const size_t odd[] = { 3, 5, 24, 100 };

	for (int round = 0; round < 25; round++)
		for (size_t alignment : odd)
			CHECK(throw_and_take(alignment, 10) == 1);
	/* Beside these: the exceptions, which libstdc++ takes from malloc. */
	say("EXPECT site=throw_and_take kind=heap sizes:777=1000 sizes:33=1000 sizes:100=0 "
	    "live_blocks=1000 live_bytes=777000\n");
	return 0;
}
