// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// Proves that exceptions pass through three libraries, with cleanups that free on the way, as they do bare.
#include "plugin.h"
#include "throw.h"

typedef int throw_top(int i, throw_middle *middle, throw_leaf *leaf);

int main()
{
	void *low = plugin_open("lib_throw_low", RTLD_NOW | RTLD_LOCAL);
	void *mid = plugin_open("lib_throw_mid", RTLD_NOW | RTLD_LOCAL);
	void *high = plugin_open("lib_throw_high", RTLD_NOW | RTLD_LOCAL);
	auto *leaf = reinterpret_cast<throw_leaf *>(plugin_symbol(low, "throw_low"));
	auto *middle = reinterpret_cast<throw_middle *>(plugin_symbol(mid, "throw_mid"));
	auto *top = reinterpret_cast<throw_top *>(plugin_symbol(high, "throw_high"));
	long sum = 0, numbers = 0;
	unsigned long low_bytes = 0, mid_bytes = 0, high_bytes = 0;
	enum { ROUNDS = 4000 };

	for (int i = 0; i < ROUNDS; i++) {
		low_bytes += static_cast<unsigned long>(i % 50 + 1);
		mid_bytes += static_cast<unsigned long>(i % 70 + 1);
		high_bytes += static_cast<unsigned long>(i % 90 + 1);
		try {
			sum += top(i, middle, leaf);
		} catch (int number) {
			numbers += number;
		}
	}
	say("sum %ld numbers %ld\n", sum, numbers);
	/* Beside its own block a library's function allocates exceptions and strings, all of which go again. */
	say("EXPECT site=throw_low kind=heap calls>=%d bytes>=%lu live_blocks=0 live_bytes=0\n",
	    ROUNDS, low_bytes);
	say("EXPECT site=throw_mid kind=heap calls>=%d bytes>=%lu live_blocks=0 live_bytes=0\n",
	    ROUNDS, mid_bytes);
	say("EXPECT site=throw_high kind=heap calls>=%d bytes>=%lu live_blocks=0 live_bytes=0\n",
	    ROUNDS, high_bytes);
	return 0;
}
