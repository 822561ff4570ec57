/* SPDX-License-Identifier: Apache-2.0 */
/* churn THREADS TOTAL: short-lived blocks of 16-512 B, 8 alive per thread, a random one of 64 call paths each time. */
#include "workload.h"
static NOINLINE void *leaf(size_t size, unsigned path)
{
	(void)path;
	void *p = malloc(size);
	KEEP(p);
	return p;
}
#define LEAF leaf
#include "paths.h"

enum { RING = 8, MAX_THREADS = 64 };
static struct truth truths[MAX_THREADS];
static long per_thread;

static NOINLINE void churn(long n, uint32_t seed, struct truth *ret)
{
	void *ring[RING] = { 0 };
	size_t size[RING] = { 0 };
	struct truth t = { 0 };

	for (long i = 0; i < n; i++) {
		uint32_t r = next_random(&seed);
		int slot = (int)(i % RING);
		if (ring[slot]) {
			free(ring[slot]);
			truth_sub(&t, size[slot]);
		}
		size[slot] = 16 + (r >> 8) % 497;
		ring[slot] = path_enter(size[slot], r & 63);
		*(volatile char *)ring[slot] = 1;
		truth_add(&t, size[slot]);
	}
	for (int slot = 0; slot < RING; slot++) {
		if (ring[slot]) {
			free(ring[slot]);
			truth_sub(&t, size[slot]);
		}
	}
	*ret = t;
}

static void *thread_main(void *arg)
{
	long i = (long)(intptr_t)arg;
	churn(per_thread, 0x9E3779B9u + (uint32_t)i * 77, &truths[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	int n_threads = argc > 1 ? atoi(argv[1]) : 1;
	long total = argc > 2 ? atol(argv[2]) : 5000000;
	struct truth sum = { 0 };
	pthread_t thread[MAX_THREADS];

	if (n_threads < 1 || n_threads > MAX_THREADS)
		return 2;
	per_thread = total / n_threads;
	if (n_threads == 1) {
		thread_main(NULL);
	} else {
		for (long i = 0; i < n_threads; i++)
			pthread_create(&thread[i], NULL, thread_main, (void *)(intptr_t)i);
		for (int i = 0; i < n_threads; i++)
			pthread_join(thread[i], NULL);
	}
	for (int i = 0; i < n_threads; i++) {
		sum.calls += truths[i].calls;
		sum.bytes += truths[i].bytes;
		sum.frees += truths[i].frees;
		sum.live += truths[i].live;
		sum.peak += truths[i].peak; /* an upper bound when there are several threads */
	}
	truth_print(n_threads == 1 ? "churn" : "churn-threads", &sum);
	return 0;
}
