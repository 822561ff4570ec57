/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -std=c++17 */
/* What an exporter may stumble over, in numbers that are easy to tell apart: names with spaces, commas, parentheses and
 * quotes, inlined functions, recursion of one and of two, blocks freed after the peak, temporary ones, reallocs, a
 * mapping, a second thread, and with an argument a child process. */
#include "target.h"

#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <utility>
#include <vector>

namespace shop
{
namespace
{
void *kept[64];
int kept_count;

NOINLINE void *take(size_t bytes)
{
	void *p = malloc(bytes);

	KEEP(p);
	return p;
}

void keep(void *p)
{
	CHECK(kept_count < 64);
	kept[kept_count++] = p;
}

template <typename Key, typename Value> struct Table {
	/* Three words of the name that a naive parser takes for the end of it: "(", ")", ", ". */
	NOINLINE void insert(const Key &, Value bytes) const
	{
		for (int i = 0; i < 3; i++)
			keep(take(bytes));
	}
};

inline __attribute__((always_inline)) void *inlined_take(size_t bytes)
{
	return take(bytes);
}

NOINLINE void through_inlined()
{
	keep(inlined_take(2000));
}

/* main > descend > descend > descend > take */
NOINLINE void descend(int depth)
{
	if (depth == 0)
		keep(take(3000));
	else
		descend(depth - 1);
	__asm__ volatile("" ::: "memory");
}

NOINLINE void odd(int depth);
NOINLINE void even(int depth)
{
	if (depth == 0)
		keep(take(4000));
	else
		odd(depth - 1);
	__asm__ volatile("" ::: "memory");
}
NOINLINE void odd(int depth)
{
	if (depth == 0)
		keep(take(5000));
	else
		even(depth - 1);
	__asm__ volatile("" ::: "memory");
}

struct Stream {
	NOINLINE const Stream &operator<<(std::string_view text) const
	{
		keep(take(text.size()));
		return *this;
	}
};

NOINLINE void temporary()
{
	for (int i = 0; i < 7; i++)
		free(take(70));
}

NOINLINE void freed_after_peak()
{
	void *p = take(100000), *q = take(23456);

	free(p);
	free(q);
}

NOINLINE void grows()
{
	void *p = NULL;

	for (size_t i = 1; i <= 5; i++) {
		p = realloc(p, i * 600);
		KEEP(p);
	}
	keep(p);
}

NOINLINE void maps()
{
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
}

NOINLINE void in_thread()
{
	keep(take(6500));
}
} // namespace
} // namespace shop

int main(int argc, char **)
{
	using namespace shop;
	auto lambda = [](int count) NOINLINE {
		for (int i = 0; i < count; i++)
			keep(take(1100));
	};

	Table<std::pair<int, const char *>, size_t>().insert({ 1, "" }, 1000);
	through_inlined();
	descend(2);
	even(3);
	even(4);
	Stream() << "twenty-one characters";
	lambda(2);
	temporary();
	grows();
	maps();
	std::thread(in_thread).join();
	freed_after_peak();
	if (argc > 1) {
		pid_t child = fork();

		CHECK(child >= 0);
		size_t bytes = child ? 8888 : 7777;
		KEEP(bytes);
		keep(take(bytes)); /* one stack, two processes */
		if (child == 0)
			_exit(0);
		CHECK(waitpid(child, NULL, 0) == child);
	}
	for (int i = 0; i < kept_count; i += 2)
		free(kept[i]);
	return 0;
}
