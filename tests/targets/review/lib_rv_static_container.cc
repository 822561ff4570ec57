// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// Operators that keep a register of all blocks in a static container: not to be called before its constructor has run.
#include "target.h"
#include <new>
#include <unordered_set>

namespace
{
template <class T> struct by_malloc {
	using value_type = T;
	by_malloc() = default;
	template <class U> explicit by_malloc(const by_malloc<U> &)
	{
	}
	T *allocate(size_t n)
	{
		return static_cast<T *>(malloc(n * sizeof(T)));
	}
	void deallocate(T *p, size_t)
	{
		free(p);
	}
	template <class U> bool operator==(const by_malloc<U> &) const
	{
		return true;
	}
	template <class U> bool operator!=(const by_malloc<U> &) const
	{
		return false;
	}
};

std::unordered_set<void *, std::hash<void *>, std::equal_to<void *>, by_malloc<void *>> blocks(
	1000);
} // namespace

extern "C" int rv_registered()
{
	return static_cast<int>(blocks.size());
}

void *operator new(size_t n)
{
	void *p = malloc(n);
	blocks.insert(p);
	return p;
}
void operator delete(void *p) noexcept
{
	blocks.erase(p);
	free(p);
}
void operator delete(void *p, size_t) noexcept
{
	blocks.erase(p);
	free(p);
}
