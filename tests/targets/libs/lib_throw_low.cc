// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// The lowest of three libraries: throws what others catch.
#include "throw.h"

extern "C" NOINLINE int throw_low(int i)
{
	held h(static_cast<size_t>(i % 50 + 1));
	if (i % 4 == 0)
		return i;
	if (i % 4 == 1)
		throw std::runtime_error("a message that needs a block of its own, number " +
					 std::to_string(i));
	if (i % 4 == 2)
		throw i;
	throw std::bad_alloc();
}
