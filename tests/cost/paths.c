/* SPDX-License-Identifier: Apache-2.0 */
/* paths THREADS PAIRS: each thread keeps eight blocks of 16 to 512 bytes and replaces the oldest by a new one, from a
 * random one of 64 call paths of 20 frames: six choices between two functions, below a common part. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

static NOINLINE void *take(size_t size, unsigned path)
{
	void *block = malloc(size);

	(void)path;
	KEEP(block);
	return block;
}

#define FUNCTION(name, body)                                                                       \
	static NOINLINE void *name(size_t size, unsigned path)                                     \
	{                                                                                          \
		void *block = body;                                                                \
                                                                                                   \
		(void)path;                                                                        \
		KEEP(block);                                                                       \
		return block;                                                                      \
	}
#define CHOICE(n, next)                                                                            \
	FUNCTION(left##n, next(size, path))                                                        \
	FUNCTION(right##n, next(size, path + 64))                                                  \
	FUNCTION(choice##n, path >> n & 1 ? left##n(size, path) : right##n(size, path))
CHOICE(0, take)
CHOICE(1, choice0)
CHOICE(2, choice1)
CHOICE(3, choice2)
CHOICE(4, choice3)
CHOICE(5, choice4)
FUNCTION(common2, choice5(size, path))
FUNCTION(common1, common2(size, path))
FUNCTION(common0, common1(size, path))

static long pairs;

static void *run(void *number)
{
	enum { RING = 8 };
	void *ring[RING] = { 0 };
	uint32_t seed = 88172645u + (uint32_t)(uintptr_t)number;

	for (long i = 0; i < pairs; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 17;
		seed ^= seed << 5;
		free(ring[i % RING]);
		ring[i % RING] = common0(16 + (seed >> 8) % 497, seed & 63);
	}
	for (int i = 0; i < RING; i++)
		free(ring[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	enum { THREADS_MAX = 64 };
	pthread_t thread[THREADS_MAX];
	long threads = argc > 2 ? atol(argv[1]) : 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	pairs = atol(argv[2]) / threads;
	if (threads == 1) {
		run(NULL);
		return 0;
	}
	for (long i = 0; i < threads; i++) {
		if (pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i) != 0)
			return 1;
	}
	for (long i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
