/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that stacks are right when a library is loaded where another one was: names, and the walk through its frames. */
#include "plugin.h"

enum { ROUNDS = 60, CALLS = 40 };

static NOINLINE void *take_below_twin(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE uintptr_t open_call_close(const char *library, const char *function)
{
	void *twin = plugin_open(library, RTLD_NOW);
	void *(*outer)(void *(*)(size_t), size_t);

	*(void **)&outer = plugin_symbol(twin, function);
	for (size_t i = 0; i < CALLS; i++) {
		void *p = outer(take_below_twin, 10 + i);
		if (i)
			free(p);
	}
	uintptr_t at = (uintptr_t)outer;
	CHECK(dlclose(twin) == 0);
	return at;
}

static NOINLINE void call_a(uintptr_t *ret_at)
{
	*ret_at = open_call_close("lib_twin_a", "twin_a_outer");
	__asm__ volatile("" ::: "memory");
}

static NOINLINE void call_b(uintptr_t *ret_at)
{
	*ret_at = open_call_close("lib_twin_b", "twin_b_outer");
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	int same_place = 0;
	uintptr_t a, b;

	for (int i = 0; i < ROUNDS; i++) {
		call_a(&a);
		call_b(&b);
		same_place += a == b;
	}
	CHECK(same_place > ROUNDS / 2);
	unsigned long calls = ROUNDS * CALLS, bytes = 0;
	for (unsigned long i = 0; i < CALLS; i++)
		bytes += ROUNDS * (10 + i);
	for (char x = 'a'; x <= 'b'; x++)
		say("EXPECT stack=take_below_twin<twin_%c_inner<twin_%c_outer<open_call_close<call_%c<main kind=heap "
		    "calls=%lu bytes=%lu live_blocks=%d live_bytes=%d\n",
		    x, x, x, calls, bytes, ROUNDS, ROUNDS * 10);
	return 0;
}
