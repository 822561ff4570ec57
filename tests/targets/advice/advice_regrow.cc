// SPDX-License-Identifier: Apache-2.0
// For the rule "reserve" in C++. bad: vectors grow as they are filled. good: they have their room from the start.
#include <vector>

#include "target.h"

enum { ROUNDS = 200, ITEMS = 1000 };

static NOINLINE long fill(bool reserve)
{
	std::vector<long> v;
	if (reserve)
		v.reserve(ITEMS);
	for (long i = 0; i < ITEMS; i++)
		v.push_back(i);
	return v[ITEMS - 1];
}

int main(int argc, char **argv)
{
	bool bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	long sum = 0;

	for (int i = 0; i < ROUNDS; i++)
		sum += fill(!bad);
	CHECK(sum == ROUNDS * (ITEMS - 1));
	// 1, 2, 4, ... 1024 items: half of each block but the first was copied, and counted as half of all.
	if (bad)
		say("ADVICE rule=reserve site=fill saving_copied_bytes=%lu saving_calls=%d\n",
		    ROUNDS * 2047ul * sizeof(long) / 2, ROUNDS * 11);
	return 0;
}
