/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -std=c99 -D_GNU_SOURCE -pedantic -pthread */
/* Pools: what a program's own allocators give out, inside blocks of malloc's. Prints "POOL name|calls|bytes|frees|live
 * bytes|live blocks|most|pools" of each, which tests/e2e/modes/test_pools.py compares with the view pools. */
#include <heapgauge/heapgauge.h>
#include <pthread.h>

#include "target.h"

enum { ARENA = 64 * 1024, NAMES = 16, THREADS = 8, SLABS = 2000, ARENAS = 5000, MANY = 30000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	const char *name;
	uint64_t calls, bytes, frees, freed, most, pools;
} truth[NAMES];

static void add(const char *name, uint64_t blocks, uint64_t bytes, int made)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (truth[i].name != NULL && strcmp(truth[i].name, name) != 0)
		i++;
	truth[i].name = name;
	truth[i].calls += blocks;
	truth[i].bytes += bytes;
	truth[i].pools += made;
	if (truth[i].bytes - truth[i].freed > truth[i].most)
		truth[i].most = truth[i].bytes - truth[i].freed;
	pthread_mutex_unlock(&lock);
}

static void take_away(const char *name, uint64_t blocks, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NAMES && truth[i].name != NULL; i++) {
		if (strcmp(truth[i].name, name) == 0) {
			truth[i].frees += blocks;
			truth[i].freed += bytes;
		}
	}
	pthread_mutex_unlock(&lock);
}

struct arena {
	const char *name;
	hg_pool pool;
	char *base;
	size_t used, blocks;
};

static struct truth backing = TRUTH(arena_open);

NOINLINE static struct arena arena_open(const char *name)
{
	struct arena arena = { name, hg_pool_new(name), malloc(ARENA), 0, 0 };

	truth_take(&backing, ARENA);
	add(name, 0, 0, 1);
	return arena;
}

/* As closely packed as can be: the first block begins where malloc's does, and others at any byte. */
NOINLINE static char *arena_take(struct arena *arena, size_t bytes)
{
	char *block = arena->base + arena->used;

	arena->used += bytes;
	arena->blocks++;
	hg_pool_alloc(arena->pool, block, bytes);
	add(arena->name, 1, bytes, 0);
	return block;
}

static void arena_reset(struct arena *arena)
{
	take_away(arena->name, arena->blocks, arena->used);
	arena->used = arena->blocks = 0;
	hg_pool_reset(arena->pool);
}

NOINLINE static void arena_close(struct arena *arena)
{
	take_away(arena->name, arena->blocks, arena->used);
	hg_pool_end(arena->pool);
	truth_drop(&backing, ARENA);
	free(arena->base);
}

static void arenas(void)
{
	struct arena kept = arena_open("kept"), again = arena_open("again");

	for (int i = 1; i <= 100; i++)
		arena_take(&kept, (size_t)i);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 50 + round; i++)
			arena_take(&again, 7);
		arena_reset(&again);
	}
	/* An arena in a block of another one: three blocks at one address. */
	struct arena inner = { "inner", hg_pool_new("inner"), kept.base, 0, 0 };

	add("inner", 0, 0, 1);
	for (int i = 0; i < 30; i++)
		arena_take(&inner, 3);
	arena_close(&again);
	for (int i = 0; i < ARENAS; i++) {
		struct arena request = arena_open("request");

		arena_take(&request, 100);
		arena_take(&request, 20);
		arena_close(&request);
	}
}

NOINLINE static void scoped(void)
{
	struct arena arena = arena_open("scoped");

	{
		HG_SCOPE("parser");
		arena_take(&arena, 1000);
		arena_take(&arena, 500);
	}
	arena_take(&arena, 250);
}

static void grows(void)
{
	hg_pool pool = hg_pool_new("grows");
	static char room[1000];

	add("grows", 0, 0, 1);
	hg_pool_resize(pool, NULL, room, 10);
	add("grows", 1, 10, 0);
	hg_pool_resize(pool, room, room, 100); /* in place */
	take_away("grows", 1, 10);
	add("grows", 1, 100, 0);
	hg_pool_resize(pool, room, room + 500, 300);
	take_away("grows", 1, 100);
	add("grows", 1, 300, 0);
}

static hg_pool slabs;
static char slab[THREADS * SLABS * 16];

/* Each thread gives back what the one before it took. */
static void *slab_thread(void *argument)
{
	long me = (long)argument;

	for (int i = 0; i < SLABS; i++) {
		hg_pool_alloc(slabs, &slab[(me * SLABS + i) * 16], 16);
		add("slabs", 1, 16, 0);
	}
	return NULL;
}

static void *slab_end(void *argument)
{
	long me = ((long)argument + 1) % THREADS;

	for (int i = 0; i < SLABS; i += 2) {
		hg_pool_free(slabs, &slab[(me * SLABS + i) * 16]);
		take_away("slabs", 1, 16);
	}
	return NULL;
}

static void together(void *(*what)(void *))
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, what, (void *)i);
	for (long i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* A table that grows and shrinks. */
static void many(void)
{
	hg_pool pool = hg_pool_new("many");
	char *at = (char *)(1L << 40); /* nobody looks there */

	add("many", 0, 0, 1);
	for (int i = 0; i < MANY; i++) {
		hg_pool_alloc(pool, at + i * 24L, 24);
		add("many", 1, 24, 0);
	}
	for (int i = 0; i < MANY; i++) {
		if (i % 3 != 0) {
			hg_pool_free(pool, at + i * 24L);
			take_away("many", 1, 24);
		}
	}
	hg_pool_free(pool, NULL);
	hg_pool_alloc(0, at, 10);
	hg_pool_free(0, at);
}

int main(void)
{
	arenas();
	scoped();
	grows();
	slabs = hg_pool_new("slabs");
	add("slabs", 0, 0, 1);
	together(slab_thread);
	together(slab_end);
	many();
	for (int i = 0; i < NAMES && truth[i].name != NULL; i++)
		say("POOL %s|%lu|%lu|%lu|%lu|%lu|%lu|%lu\n", truth[i].name,
		    (unsigned long)truth[i].calls, truth[i].bytes, truth[i].frees,
		    truth[i].bytes - truth[i].freed, truth[i].calls - truth[i].frees, truth[i].most,
		    truth[i].pools);
	say("recorded or not, the same\n");
	truth_print(&backing, "");
	return 0;
}
