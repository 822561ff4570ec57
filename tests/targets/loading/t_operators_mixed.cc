// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// needs: lib_operators_mixed
// Proves that operators which serve one block from memory of their own and the next from malloc are recorded right, and
// that malloc is asked about none but its own.
#include "operators.h"

int main()
{
	take_and_drop(5000);
	truth_print(&truth, "");
	return 0;
}
