/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that many threads may make their very first allocation at the same moment: each is given its place, and racing for
 * the recorder's memory uses up no more of it than one after the other would. */
#include "target.h"
#include <pthread.h>

enum { THREADS = 300, ROUNDS = 3 };
static struct truth truth = TRUTH(take_first);
static pthread_barrier_t end;
static int
	gate; /* the round that may begin; spun upon, so that all threads are runnable when it opens */

static NOINLINE void *take_first(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void *body(void *arg)
{
	while (__atomic_load_n(&gate, __ATOMIC_ACQUIRE) < (int)(intptr_t)arg)
		;
	void *p = take_first(50);
	for (size_t n = 0; n < 40; n++) {
		free(take_first(n * 30));
		truth_drop(&truth, n * 30);
	}
	pthread_barrier_wait(&end);
	free(p);
	truth_drop(&truth, 50);
	return arg;
}

int main(void)
{
	static pthread_t thread[THREADS];
	pthread_attr_t small;

	pthread_barrier_init(&end, NULL, THREADS);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 * 1024);
	for (intptr_t round = 1; round <= ROUNDS; round++) {
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&thread[i], &small, body, (void *)round) == 0);
		__atomic_store_n(&gate, (int)round, __ATOMIC_RELEASE);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(thread[i], NULL) == 0);
	}
	truth_print(&truth, "");
	say("EXPECT process threads=%d\n", 1 + THREADS * ROUNDS);
	return 0;
}
