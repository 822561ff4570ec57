// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// The highest of three libraries: catches all but numbers.
#include "throw.h"

extern "C" NOINLINE int throw_high(int i, throw_middle *middle, throw_leaf *leaf)
{
	held h(static_cast<size_t>(i % 90 + 1));
	try {
		return middle(i, leaf);
	} catch (const std::bad_alloc &) {
		return -1;
	} catch (const std::exception &e) {
		return -static_cast<int>(std::string(e.what()).size());
	}
}
