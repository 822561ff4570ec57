// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17 -fno-builtin
// Proves that a program which defines malloc, free, calloc and realloc itself works as ever: its own calls do not pass
// the recorder, the C++ operators do, and hand out blocks that no other allocator may be asked about.
#include "target.h"
#include <string>
#include <vector>

extern "C" {
static char pool[64 << 20];
static size_t used;
static unsigned long own_calls;

void *malloc(size_t n) noexcept
{
	size_t *header = reinterpret_cast<size_t *>(pool + used);

	used += (n + 31) & ~static_cast<size_t>(15);
	if (used > sizeof pool)
		return nullptr;
	own_calls++;
	header[0] = n;
	header[1] = 0x5a5a5a5a5a5a5a51;
	return header + 2;
}

void free(void *) noexcept
{
}

void *calloc(size_t count, size_t size) noexcept
{
	return malloc(count * size);
}

void *realloc(void *block, size_t n) noexcept
{
	void *fresh = malloc(n);

	if (block && fresh) {
		size_t old = static_cast<size_t *>(block)[-2];
		memcpy(fresh, block, old < n ? old : n);
	}
	return fresh;
}

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = operator new(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}
}

int main()
{
	void *other = malloc(10);
	CHECK(other == realloc(other, 0) || own_calls >= 2);
	for (size_t n = 1; n <= 2000; n++) {
		void *p = take(n);
		memset(p, 7, n);
		if (n % 3 == 0)
			continue;
		operator delete(p);
		truth_drop(&truth, n);
	}
	CHECK(own_calls >= 2002);
	std::vector<std::string> words;
	for (size_t n = 0; n < 1000; n++)
		words.emplace_back(100 + n, 'x');
	CHECK(words.back().size() == 1099);
	truth_print(&truth, "fragmentation_bytes=0");
	return 0;
}
