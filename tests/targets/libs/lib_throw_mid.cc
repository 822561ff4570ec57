// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// The middle of three libraries: catches some and throws again.
#include "throw.h"

extern "C" NOINLINE int throw_mid(int i, throw_leaf *leaf)
{
	held h(static_cast<size_t>(i % 70 + 1));
	try {
		return leaf(i);
	} catch (int number) {
		held inner(300);
		if (number % 8 == 2)
			throw;
		throw std::runtime_error("was a number");
	}
}
