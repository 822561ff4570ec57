/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -pthread */
/* For the rule "elsewhere". bad: one thread allocates, another frees. good: each frees its own. */
#include <pthread.h>

#include "target.h"

enum { BLOCKS = 100000 };

static void *blocks[BLOCKS];
static pthread_barrier_t barrier;

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static void *allocate(void *unused)
{
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = take(100);
	return unused;
}

static void *release(void *unused)
{
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return unused;
}

static void *both(void *unused)
{
	void *before = NULL;

	for (int i = 0; i < BLOCKS; i++) {
		void *p = take(100);
		free(before);
		before = p;
	}
	free(before);
	return unused;
}

/* Both threads live until the end: a slot that is free again would be taken for the same thread. */
static void *hand_over(void *unused)
{
	allocate(unused);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return unused;
}

static void *take_over(void *unused)
{
	pthread_barrier_wait(&barrier);
	release(unused);
	pthread_barrier_wait(&barrier);
	return unused;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	pthread_t first, second;

	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(pthread_create(&first, NULL, bad ? hand_over : both, NULL) == 0);
	CHECK(pthread_create(&second, NULL, bad ? take_over : both, NULL) == 0);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	if (bad)
		say("ADVICE rule=elsewhere site=take saving_cross_thread_frees=%d\n", BLOCKS);
	return 0;
}
