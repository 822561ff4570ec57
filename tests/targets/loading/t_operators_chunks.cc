// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// needs: lib_operators_chunks
// Proves that blocks which operators cut from chunks of malloc's are not counted beside the chunks, nor taken for leaks.
#include "operators.h"

extern "C" struct truth chunk_truth;

int main()
{
	take_and_drop(5000);
	chunk_truth.site = "new_chunk+take"; // the very first is the caller's
	truth_print(&chunk_truth, "");
	return 0;
}
