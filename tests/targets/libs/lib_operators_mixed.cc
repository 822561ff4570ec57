// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// Operators that take small blocks from pages of their own, the first right behind one that cannot be read, and leave
// large ones to malloc. Who asks malloc about a small block falls.
#include "target.h"
#include <new>
#include <sys/mman.h>

namespace
{
enum : size_t { PAGE = 4096, SMALL = 1000, ROOM = 8 << 20 };
char *start, *at;

bool is_small(const void *p)
{
	return p >= start && p < start + ROOM;
}
} // namespace

static NOINLINE void open_pages()
{
	char *p = static_cast<char *>(
		mmap(nullptr, PAGE + ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	CHECK(p != MAP_FAILED && mprotect(p + PAGE, ROOM, PROT_READ | PROT_WRITE) == 0);
	start = at = p + PAGE;
}

void *operator new(size_t n)
{
	if (n > SMALL) {
		void *p = malloc(n);
		CHECK(p);
		return p;
	}
	if (!start)
		open_pages();
	void *p = at;
	at += (n + 15) & ~static_cast<size_t>(15);
	CHECK(at <= start + ROOM);
	return p;
}
void operator delete(void *p) noexcept
{
	if (!is_small(p))
		free(p);
}
void operator delete(void *p, size_t n) noexcept
{
	CHECK(is_small(p) == (n <= SMALL));
	operator delete(p);
}
