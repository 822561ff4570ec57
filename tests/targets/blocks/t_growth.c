/* SPDX-License-Identifier: Apache-2.0 */
/* Four courses at once, for the verdicts of the view growth: a leak in a line, a cache that fills and then replaces, a
 * batch that comes and goes, and something that begins too late to be judged. The argument is how long, in ms. */
#include <time.h>

#include "target.h"

enum { STEP_MS = 5, CACHE_BLOCKS = 64, BATCH_BLOCKS = 60, LEAK_BYTES = 1000 };

static struct truth leak_truth = TRUTH(leak);
static struct truth cache_truth = TRUTH(fill_cache);
static struct truth batch_truth = TRUTH(add_to_batch);
static struct truth late_truth = TRUTH(begin_late);

static void *cache[CACHE_BLOCKS], *batch[BATCH_BLOCKS], *leaked;
static size_t cached, batched;

static NOINLINE void leak(void)
{
	void **p = malloc(LEAK_BYTES);
	KEEP(p);
	*p = leaked;
	leaked = p;
	truth_take(&leak_truth, LEAK_BYTES);
}

static NOINLINE void fill_cache(void)
{
	size_t at = cached++ % CACHE_BLOCKS;

	if (cache[at])
		truth_drop(&cache_truth, 3000);
	free(cache[at]);
	cache[at] = malloc(3000);
	KEEP(cache[at]);
	truth_take(&cache_truth, 3000);
}

static NOINLINE void add_to_batch(void)
{
	if (batched == BATCH_BLOCKS) {
		while (batched > 0) {
			free(batch[--batched]);
			truth_drop(&batch_truth, 2000);
		}
	}
	batch[batched] = malloc(2000);
	KEEP(batch[batched]);
	truth_take(&batch_truth, 2000);
	batched++;
}

static NOINLINE void begin_late(void)
{
	void **p = malloc(500);
	KEEP(p);
	*p = leaked;
	leaked = p;
	truth_take(&late_truth, 500);
}

int main(int argc, char **argv)
{
	long steps = (argc > 1 ? strtol(argv[1], NULL, 10) : 100) / STEP_MS;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long i = 0; i < steps; i++) {
		leak();
		fill_cache();
		add_to_batch();
		if (i > steps - steps / 10)
			begin_late();
		next.tv_nsec += STEP_MS * 1000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	truth_print(&leak_truth, "");
	truth_print(&cache_truth, "");
	truth_print(&batch_truth, "");
	truth_print(&late_truth, "");
	return 0;
}
