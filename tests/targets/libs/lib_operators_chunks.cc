// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// Operators on a pool whose chunks come from malloc, and go back when the program ends.
#include "target.h"
#include <new>

extern "C" {
struct truth chunk_truth = TRUTH(new_chunk);
}

namespace
{
enum : size_t { CHUNK = 1 << 16, PIECE = 2048 };

struct pool {
	char *chunk[100];
	size_t chunks, used = CHUNK;
	void *unused;

	~pool()
	{
		while (chunks > 0)
			free(chunk[--chunks]);
	}
} pool;
} // namespace

extern "C" NOINLINE char *new_chunk()
{
	char *p = static_cast<char *>(malloc(CHUNK));
	KEEP(p);
	truth_take(&chunk_truth, CHUNK);
	truth_drop(&chunk_truth, CHUNK); // at the end
	return p;
}

void *operator new(size_t n)
{
	CHECK(n <= PIECE);
	if (void **first = static_cast<void **>(pool.unused)) {
		pool.unused = *first;
		return first;
	}
	if (pool.used + PIECE > CHUNK) {
		CHECK(pool.chunks < 100);
		pool.chunk[pool.chunks++] = new_chunk();
		pool.used = 64;
	}
	pool.used += PIECE;
	return pool.chunk[pool.chunks - 1] + pool.used - PIECE;
}
void operator delete(void *p) noexcept
{
	*static_cast<void **>(p) = pool.unused;
	pool.unused = p;
}
void operator delete(void *p, size_t) noexcept
{
	operator delete(p);
}
