// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// Every form of operator new, each from a function of its own that leaks one block: the stack must begin there, although
// libstdc++'s operators for arrays jump to those for single objects.
#include "target.h"
#include <new>

#define FORM(name, bytes, expression)                                                              \
	extern "C" {                                                                               \
	static NOINLINE void *name()                                                               \
	{                                                                                          \
		void *block = expression;                                                          \
		KEEP(block);                                                                       \
		return block;                                                                      \
	}                                                                                          \
	static struct truth truth_of_##name = { #name, "heap", 1, bytes, 0, 0 };                   \
	}
FORM(plain, 11, ::operator new(11))
FORM(array, 12, ::operator new[](12))
FORM(nothrow, 13, ::operator new(13, std::nothrow))
FORM(array_nothrow, 14, ::operator new[](14, std::nothrow))
FORM(aligned, 65, ::operator new(65, std::align_val_t(64)))
FORM(array_aligned, 129, ::operator new[](129, std::align_val_t(64)))
FORM(aligned_nothrow, 193, ::operator new(193, std::align_val_t(64), std::nothrow))
FORM(array_aligned_nothrow, 257, ::operator new[](257, std::align_val_t(64), std::nothrow))

int main()
{
	void *all[] = { plain(),   array(),	    nothrow(),	       array_nothrow(),
			aligned(), array_aligned(), aligned_nothrow(), array_aligned_nothrow() };
	const struct truth *truths[] = {
		&truth_of_plain,	   &truth_of_array,
		&truth_of_nothrow,	   &truth_of_array_nothrow,
		&truth_of_aligned,	   &truth_of_array_aligned,
		&truth_of_aligned_nothrow, &truth_of_array_aligned_nothrow
	};

	for (void *block : all)
		CHECK(block);
	for (const struct truth *truth : truths)
		truth_print(truth, "");
	return 0;
}
