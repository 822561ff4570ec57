/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the peak of several threads is right within its stated bound, and that the bound is at most 1 %. */
#include "target.h"
#include <pthread.h>

enum { THREADS = 4, PHASES = 12, MOST = 900 };
static struct truth truth = TRUTH(hold);
static pthread_barrier_t step;
static uint64_t live, peak;

/* How many blocks each thread holds in each phase; the largest sum is not the last, nor any thread's own largest. */
static unsigned wanted(unsigned thread, unsigned phase)
{
	static const unsigned base[PHASES] = {
		10, 200, 50, 400, 700, 300, 5, 600, 650, 90, 650, 0
	};
	return base[phase] + (thread * 37 + phase * 11) % 90;
}

static size_t block_size(unsigned thread, unsigned i)
{
	return 100 + (thread * 131 + i * 17) % 900;
}

static NOINLINE void *hold(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

/* Grows first, then everybody waits, then shrinks: at each barrier the sum is known. */
static void *body(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, have = 0;
	void *block[MOST];

	for (unsigned phase = 0; phase < PHASES; phase++) {
		for (; have < wanted(me, phase); have++) {
			block[have] = hold(block_size(me, have));
			__atomic_fetch_add(&live, block_size(me, have), __ATOMIC_RELAXED);
		}
		pthread_barrier_wait(&step);
		if (me == 0 && live > peak)
			peak = live;
		pthread_barrier_wait(&step);
		unsigned next = phase + 1 < PHASES ? wanted(me, phase + 1) : 0;
		for (; have > next; have--) {
			free(block[have - 1]);
			truth_drop(&truth, block_size(me, have - 1));
			__atomic_fetch_sub(&live, block_size(me, have - 1), __ATOMIC_RELAXED);
		}
		pthread_barrier_wait(&step);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	char more[80];

	pthread_barrier_init(&step, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	snprintf(more, sizeof more, "peak_bytes~=%lu", (unsigned long)peak);
	truth_print(&truth, more);
	say("EXPECT process threads=%d peak_bound_bytes<=%lu\n", 1 + THREADS,
	    (unsigned long)peak / 100);
	return 0;
}
