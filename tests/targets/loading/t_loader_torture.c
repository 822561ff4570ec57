/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that nothing hangs and no count is lost when threads allocate while others load and unload libraries and walk the
 * list of loaded objects with a callback that allocates. */
#include "plugin.h"
#include <link.h>
#include <pthread.h>

enum { BUSY = 3, LOADING = 2, WALKING = 1 };
static struct truth busy_truth = TRUTH(take_busy);
static struct truth walk_truth = TRUTH(take_in_walk);
static int done;
static long rounds;

static NOINLINE void *take_busy(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&busy_truth, n);
	return p;
}

static NOINLINE void *take_in_walk(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&walk_truth, n);
	return p;
}

static NOINLINE void descend(int depth, size_t n)
{
	if (depth > 0) {
		descend(depth - 1, n);
		__asm__ volatile("" ::: "memory");
		return;
	}
	free(take_busy(n));
	truth_drop(&busy_truth, n);
}

static void *busy(void *arg)
{
	uint32_t seed = 5u + (uint32_t)(uintptr_t)arg;
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		descend((int)(next_random(&seed) % 40), next_random(&seed) % 900);
	return NULL;
}

static void *loading(void *arg)
{
	for (long i = 0; i < rounds; i++) {
		void *a = plugin_open("lib_twin_a", RTLD_NOW);
		void *b = plugin_open("lib_twin_b", RTLD_NOW);
		dlclose(a);
		void *c = plugin_open("lib_plugin", RTLD_NOW);
		dlclose(b);
		dlclose(c);
	}
	return arg;
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info, (void)size, (void)arg;
	free(take_in_walk(64));
	truth_drop(&walk_truth, 64);
	return 0;
}

static void *walking(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		dl_iterate_phdr(visit, NULL);
	return arg;
}

int main(void)
{
	pthread_t thread[BUSY + LOADING + WALKING];

	rounds = long_form(100, 20000);
	for (uintptr_t i = 0; i < BUSY + LOADING + WALKING; i++)
		CHECK(pthread_create(&thread[i], NULL,
				     i < BUSY		  ? busy
				     : i < BUSY + LOADING ? loading
							  : walking,
				     (void *)i) == 0);
	for (int i = BUSY; i < BUSY + LOADING; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < BUSY + LOADING + WALKING; i++)
		if (i < BUSY || i >= BUSY + LOADING)
			CHECK(pthread_join(thread[i], NULL) == 0);
	truth_print(&busy_truth, "");
	truth_print(&walk_truth, "");
	/* Fewer when one thread finds the library loaded by the other. */
	say("EXPECT site=plugin_take kind=heap calls>=8 calls<=%ld live_blocks=0\n",
	    rounds * LOADING * 8);
	return 0;
}
