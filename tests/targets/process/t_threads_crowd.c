/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that 512 threads that all allocate at once, many more than there are processors, end as they do bare, and that nothing
 * of what they did is lost (H3). Each has blocks of its own and hands every eighth to its neighbour.
 *   t_threads_crowd [turns [threads]] */
#include "target.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS_USUAL = 512, THREADS_MAX = 1000, HELD = 64 };
static struct truth truth = TRUTH(take);
static pthread_barrier_t all_here;
static long turns;
static unsigned threads;
static _Atomic(uint64_t *) letterbox[THREADS_MAX];

/* The size is in the block, whoever frees it. */
static NOINLINE uint64_t *take(size_t n)
{
	uint64_t *p = malloc(n);
	KEEP(p);
	*p = n;
	return p;
}

struct sums {
	uint64_t calls, bytes, frees, freed_bytes;
};

static void drop(struct sums *sums, uint64_t *p)
{
	if (p == NULL)
		return;
	sums->frees++;
	sums->freed_bytes += *p;
	free(p);
}

static void *body(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, random = me + 1;
	uint64_t *held[HELD] = { NULL };
	struct sums sums = { 0 };

	pthread_barrier_wait(&all_here);
	for (long i = 0; i < turns; i++) {
		random = random * 1103515245 + 12345;
		unsigned at = random >> 8 & (HELD - 1);
		size_t size = 8 + (random >> 16) % 2000;

		drop(&sums, held[at]);
		held[at] = take(size);
		sums.calls++;
		sums.bytes += size;
		if (i % 8 == 0)
			held[at] = atomic_exchange(&letterbox[(me + 1) % threads], held[at]);
	}
	for (int i = 0; i < HELD; i++)
		drop(&sums, held[i]);
	__atomic_fetch_add(&truth.calls, sums.calls, __ATOMIC_RELAXED);
	__atomic_fetch_add(&truth.bytes, sums.bytes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&truth.frees, sums.frees, __ATOMIC_RELAXED);
	__atomic_fetch_add(&truth.freed_bytes, sums.freed_bytes, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t thread[THREADS_MAX];
	struct sums left = { 0 };
	pthread_attr_t small;

	turns = argc > 1 ? strtol(argv[1], NULL, 10) : long_form(8000, 100000);
	threads = argc > 2 ? (unsigned)strtol(argv[2], NULL, 10) : THREADS_USUAL;
	CHECK(threads <= THREADS_MAX);
	pthread_barrier_init(&all_here, NULL, threads);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 * 1024);
	for (uintptr_t i = 0; i < threads; i++)
		CHECK(pthread_create(&thread[i], &small, body, (void *)i) == 0);
	for (unsigned i = 0; i < threads; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	for (unsigned i = 0; i < threads; i++)
		drop(&left, atomic_load(&letterbox[i]));
	truth.frees += left.frees;
	truth.freed_bytes += left.freed_bytes;
	CHECK(truth.calls == truth.frees && truth.bytes == truth.freed_bytes);
	truth_print(&truth, "");
	/* The machine may be so busy that the owner of a lock has no processor for a tenth of a second. */
	say("EXPECT process threads=%u\nHEALTH_MAYBE lock_timeouts\n", 1 + threads);
	return 0;
}
