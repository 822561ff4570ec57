/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "tokens.h"

int main(void)
{
	for (int turn = 0; turn < 1000; turn++) {
		struct tokens tokens = tokens_split("the quick brown fox jumps over the lazy dog");

		assert(tokens.count == 9);
		assert(strcmp(tokens.words[3], "fox") == 0);
		tokens_free(&tokens);
	}
	return 0;
}
