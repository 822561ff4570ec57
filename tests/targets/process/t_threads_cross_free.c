/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a block belongs to who allocated it, whoever frees it: producers, consumers, and a realloc in between. */
#include "target.h"
#include <pthread.h>
#include <semaphore.h>

enum { PRODUCERS = 3, CONSUMERS = 3, RING = 256 };
static struct truth made_truth = TRUTH(produce);
static struct truth changed_truth = TRUTH(change);
static struct truth own_truth = TRUTH(take_own);
static long per_producer;

static struct {
	void *block;
	size_t size;
} ring[RING];
static unsigned head, tail;
static sem_t room, filled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static NOINLINE void *produce(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&made_truth, n);
	return p;
}

/* Of who frees only what others took, the recorder sees a thread just if it calls the allocator: not one that begins when all is taken. */
static NOINLINE void *take_own(void)
{
	void *p = malloc(16);
	KEEP(p);
	truth_take(&own_truth, 16);
	return p;
}

static NOINLINE void *change(void *p, size_t old, size_t n)
{
	void *q = realloc(p, n);
	KEEP(q);
	truth_drop(&made_truth, old);
	truth_take(&changed_truth, n);
	return q;
}

static void put(void *p, size_t n)
{
	while (sem_wait(&room) != 0)
		;
	pthread_mutex_lock(&lock);
	ring[head++ % RING].block = p;
	ring[(head - 1) % RING].size = n;
	pthread_mutex_unlock(&lock);
	sem_post(&filled);
}

static void *get(size_t *ret_size)
{
	while (sem_wait(&filled) != 0)
		;
	pthread_mutex_lock(&lock);
	void *p = ring[tail % RING].block;
	*ret_size = ring[tail++ % RING].size;
	pthread_mutex_unlock(&lock);
	sem_post(&room);
	return p;
}

static void *producer(void *arg)
{
	uint32_t seed = 77u + (uint32_t)(uintptr_t)arg;
	for (long i = 0; i < per_producer; i++) {
		size_t n = next_random(&seed) % 700 + 1;
		put(produce(n), n);
	}
	return NULL;
}

static void *consumer(void *arg)
{
	uint32_t seed = 99u + (uint32_t)(uintptr_t)arg;
	size_t n;

	free(take_own());
	truth_drop(&own_truth, 16);
	for (void *p; (p = get(&n)) != NULL;) {
		if (next_random(&seed) % 4 == 0) {
			p = change(p, n, n * 2);
			free(p);
			truth_drop(&changed_truth, n * 2);
			continue;
		}
		if (next_random(&seed) % 50 == 0)
			continue; /* leaked */
		free(p);
		truth_drop(&made_truth, n);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[PRODUCERS + CONSUMERS];

	per_producer = long_form(20000, 1000000);
	sem_init(&room, 0, RING);
	sem_init(&filled, 0, 0);
	for (uintptr_t i = 0; i < PRODUCERS + CONSUMERS; i++)
		CHECK(pthread_create(&thread[i], NULL, i < PRODUCERS ? producer : consumer,
				     (void *)i) == 0);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < CONSUMERS; i++)
		put(NULL, 0);
	for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
		pthread_join(thread[i], NULL);
	truth_print(&made_truth, "");
	truth_print(&changed_truth, "");
	truth_print(&own_truth, "");
	say("EXPECT process threads=%d\n", 1 + PRODUCERS + CONSUMERS);
	return 0;
}
