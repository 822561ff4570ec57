// SPDX-License-Identifier: Apache-2.0
// flags: -std=c++17
// Proves that std::bad_alloc passes through thousands of times, that a new_handler is called, and that what follows is
// still recorded.
#include "target.h"
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

static struct truth after_truth = TRUTH(take_after);
static volatile size_t huge = SIZE_MAX / 2;
static int handler_calls;

extern "C" {
static NOINLINE void *ask_too_much(int form)
{
	switch (form) {
	case 0:
		return operator new(huge);
	case 1:
		return operator new[](huge);
	case 2:
		return operator new (huge, std::align_val_t{ 64 });
	default:
		return operator new[](huge, std::align_val_t{ 64 });
	}
}

static NOINLINE void *ask_too_much_politely(int form)
{
	switch (form) {
	case 0:
		return operator new(huge, std::nothrow);
	case 1:
		return operator new[](huge, std::nothrow);
	case 2:
		return operator new (huge, std::align_val_t{ 64 }, std::nothrow);
	default:
		return operator new[](huge, std::align_val_t{ 64 }, std::nothrow);
	}
}

static NOINLINE char *take_after(size_t n)
{
	char *p = new char[n];
	KEEP(p);
	truth_take(&after_truth, n);
	return p;
}

static NOINLINE int catch_one(int form)
{
	try {
		ask_too_much(form);
	} catch (const std::bad_alloc &) {
		return 1;
	}
	return 0;
}
}

static void give_up()
{
	handler_calls++;
	if (handler_calls % 3 == 0)
		throw std::bad_alloc();
}

int main()
{
	int caught = 0;

	for (int i = 0; i < 5000; i++) {
		caught += catch_one(i % 4);
		CHECK(ask_too_much_politely(i % 4) == nullptr);
		char *p = take_after(static_cast<size_t>(i % 300 + 1));
		if (i % 10) {
			delete[] p;
			truth_drop(&after_truth, static_cast<size_t>(i % 300 + 1));
		}
	}
	std::set_new_handler(give_up);
	for (int i = 0; i < 100; i++)
		caught += catch_one(i % 4);
	std::set_new_handler(nullptr);
	try {
		std::vector<std::string> many;
		many.reserve(huge / 64);
		const std::string *first = many.data();
		KEEP(first); // a compiler may leave out an allocation that nobody uses
	} catch (const std::bad_alloc &) {
		caught++;
	} catch (const std::length_error &) {
		caught += 2;
	}
	say("caught %d, new_handler called %d times\n", caught, handler_calls);
	CHECK(caught == 5102 || caught == 5101);
	CHECK(handler_calls == 300);
	truth_print(&after_truth, "");
	say("EXPECT site=ask_too_much+catch_one kind=heap live_bytes=0 live_blocks=0\n");
	say("EXPECT site=ask_too_much_politely kind=heap calls=0\n");
	return 0;
}
