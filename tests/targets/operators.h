// SPDX-License-Identifier: Apache-2.0
// For programs whose operators are of a library beside them: takes and deletes blocks of many sizes, some after others.
#ifndef OPERATORS_H
#define OPERATORS_H
#include "target.h"
#include <new>

extern "C" {
static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = operator new(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}
}

static void drop(void *p, size_t n)
{
	if (n % 2)
		operator delete(p);
	else
		operator delete(p, n);
	truth_drop(&truth, n);
}

static size_t size_of_block(size_t i)
{
	return 1 + i * 37 % 2000;
}

// Every seventh block stays.
static void take_and_drop(size_t count)
{
	void *kept[50] = {};

	for (size_t i = 0; i < count; i++) {
		void *&place = kept[i % 50];
		if (place && (i - 50) % 7)
			drop(place, size_of_block(i - 50));
		size_t n = size_of_block(i);
		place = take(n);
		memset(place, static_cast<int>(i), n);
	}
}
#endif
