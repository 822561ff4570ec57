/* SPDX-License-Identifier: Apache-2.0 */
/* pairs flat|sticky|random [BATCHES]: nanoseconds per malloc+free pair, timed in batches inside the process. Prints the
 * 5th percentile of the batches, which start-up, exit and a busy machine hardly move: the quietest of the measures here.
 * flat: 64 B from one place; sticky: one of 64 paths of 21 frames, kept for 64 calls; random: a new path at each call. */
#include "workload.h"

enum { RING = 256, BATCH = 2000, MAX_BATCHES = 5000 };
static void *ring[RING];
static unsigned slot;

static NOINLINE void *leaf(size_t size, unsigned path)
{
	void **here = &ring[slot++ % RING];
	free(*here);
	char *p = malloc(size);
	KEEP(p);
	p[0] = (char)path;
	*here = p;
	return p;
}
#define LEAF leaf
#include "paths.h"

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "sticky";
	int batches = argc > 2 ? atoi(argv[2]) : 800;
	static double cost[MAX_BATCHES];
	static unsigned size[BATCH];
	static unsigned char path[BATCH];
	uint32_t seed = 88172645u;
	unsigned p = 0;

	if (batches < 20 || batches > MAX_BATCHES)
		return 2;
	for (int i = 0; i < BATCH; i++) {
		uint32_t r = next_random(&seed);
		size[i] = 16 + (r >> 8) % 497;
		if (mode[0] == 'r' || (mode[0] == 's' && i % 64 == 0))
			p = r & 63;
		path[i] = (unsigned char)p;
	}
	for (int b = 0; b < batches; b++) {
		double start = now_ns();
		for (int i = 0; i < BATCH; i++) {
			if (mode[0] == 'f')
				leaf(64, 0);
			else
				path_enter(size[i], path[i]);
		}
		cost[b] = (now_ns() - start) / BATCH;
	}
	qsort(cost, (size_t)batches, sizeof *cost, by_value);
	printf("NS_PER_PAIR %.2f\n", cost[batches / 20]);
	return 0;
}
