// SPDX-License-Identifier: Apache-2.0
// flags: -shared -std=c++17 -pthread
// A plugin whose constructor starts a thread that uses operator new, and waits for it: dlopen still holds the loader's
// lock then, so whoever asks the loader anything in that thread waits for ever.
#include "target.h"
#include <new>
#include <pthread.h>

extern "C" {
struct truth rv_thread_truth = TRUTH(rv_take_in_thread);

static NOINLINE void *rv_take_in_thread(size_t n, int form)
{
	void *p = form == 0   ? operator new(n, std::nothrow)
		  : form == 1 ? operator new[](n)
			      :
			      operator new(n, std::align_val_t(64));
	KEEP(p);
	truth_take(&rv_thread_truth, n);
	return p;
}

static void *run(void *)
{
	for (int i = 0; i < 30; i++) {
		operator delete(rv_take_in_thread(10, 0), std::nothrow);
		operator delete[](rv_take_in_thread(20, 1));
		operator delete(rv_take_in_thread(64, 2), std::align_val_t(64));
		truth_drop(&rv_thread_truth, 10);
		truth_drop(&rv_thread_truth, 20);
		truth_drop(&rv_thread_truth, 64);
	}
	return nullptr;
}
}

namespace
{
struct starter {
	starter()
	{
		pthread_t thread;
		CHECK(pthread_create(&thread, nullptr, run, nullptr) == 0);
		CHECK(pthread_join(thread, nullptr) == 0);
	}
} starter;
} // namespace
