// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17
// A C++ plugin for a C program: brings libstdc++ along, in its own scope only.
#include "target.h"
#include <map>
#include <new>
#include <string>

extern "C" {
struct truth cxx_plugin_truth = TRUTH(cxx_plugin_take);
static volatile size_t huge = SIZE_MAX / 2;

NOINLINE char *cxx_plugin_take(size_t n)
{
	char *p = static_cast<char *>(operator new(n));
	KEEP(p);
	truth_take(&cxx_plugin_truth, n);
	return p;
}

static NOINLINE char *take_too_much()
{
	char *p = static_cast<char *>(operator new(huge));
	KEEP(p);
	return p;
}

int cxx_plugin_work(int rounds)
{
	int caught = 0;
	for (int i = 0; i < rounds; i++) {
		size_t n = static_cast<size_t>(i % 100 + 1);
		operator delete(cxx_plugin_take(n), n);
		truth_drop(&cxx_plugin_truth, n);
		try {
			take_too_much();
		} catch (const std::bad_alloc &) {
			caught++;
		}
	}
	std::map<std::string, int> words;
	for (int i = 0; i < rounds; i++)
		words["a word that does not fit into the object itself " +
		      std::to_string(i % 37)]++;
	return caught == rounds ? static_cast<int>(words.size()) : -1;
}
}
