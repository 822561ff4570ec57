// SPDX-License-Identifier: Apache-2.0
// flags: -O1 -std=c++17
// Every form of operator new, each from a function of its own that leaks one block: the stack must begin there, although
// libstdc++'s operators for arrays jump to those for single objects.
#include <cstddef>
#include <cstdio>
#include <new>

#define FORM(name, expression)                                                                     \
	__attribute__((noinline, noclone)) static void *name()                                     \
	{                                                                                          \
		void *block = expression;                                                          \
		__asm__ volatile("" : "+r"(block));                                                \
		return block;                                                                      \
	}
FORM(plain, ::operator new(11))
FORM(array, ::operator new[](12))
FORM(nothrow, ::operator new(13, std::nothrow))
FORM(array_nothrow, ::operator new[](14, std::nothrow))
FORM(aligned, ::operator new(64, std::align_val_t(64)))
FORM(array_aligned, ::operator new[](128, std::align_val_t(64)))
FORM(aligned_nothrow, ::operator new(192, std::align_val_t(64), std::nothrow))
FORM(array_aligned_nothrow, ::operator new[](256, std::align_val_t(64), std::nothrow))

int main()
{
	void *all[] = { plain(),   array(),	    nothrow(),	       array_nothrow(),
			aligned(), array_aligned(), aligned_nothrow(), array_aligned_nothrow() };

	std::printf("%zu\n", sizeof all / sizeof *all);
	return 0;
}
