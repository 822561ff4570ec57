/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that allocate and free without a pause, and hold at most one block each. The arguments: how many, the bytes of a block, and
 * rounds. Prints the most bytes and blocks that they hold together. */
#include <pthread.h>

#include "target.h"

enum { THREADS_MAX = 64 };

static size_t block_bytes;
static long rounds;

static NOINLINE void *one_block(void)
{
	void *p = malloc(block_bytes);

	KEEP(p);
	return p;
}

static void *allocates_and_frees(void *unused)
{
	(void)unused;
	for (long i = 0; i < rounds; i++)
		free(one_block());
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	long count = argc > 3 ? atol(argv[1]) : 0;

	if (count < 1 || count > THREADS_MAX)
		return 2;
	block_bytes = strtoul(argv[2], NULL, 10);
	rounds = atol(argv[3]);
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, allocates_and_frees, NULL) != 0)
			return 2;
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	say("%lu %ld\n", (unsigned long)count * (unsigned long)block_bytes, count);
	return 0;
}
