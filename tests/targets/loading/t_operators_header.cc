// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// needs: lib_operators_header
// Proves that operators which return a place inside malloc's block are counted once, by what malloc was asked for.
#include "operators.h"

extern "C" struct truth header_truth;

int main()
{
	take_and_drop(5000);
	header_truth.site = "with_header+take"; // the very first is the caller's
	truth_print(&header_truth, "");
	return 0;
}
