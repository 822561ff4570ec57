/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-hooked format base */
/* R16: the whole recorder under its test names, called by eight threads that come and go, hand their blocks to each other, change the mode,
 * enter scopes, use pools, map memory, read statistics and fork. In the preset tsan ThreadSanitizer watches; in the others it is
 * one more storm. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "heapgauge/stats.h"
#include "hooked.h"
#include "unit.h"

enum { THREADS = 8, ROUNDS = 6, OPERATIONS = 4000, BLOCKS = 256, POOL_BLOCKS = 64, DEPTHS = 32 };

static const struct hg_recorder_ *api;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *blocks[BLOCKS];
static uint64_t pool;
static char in_pool[POOL_BLOCKS][16];
static pthread_barrier_t all_there;

/* What was there; a block goes from thread to thread under the lock, as in any program. */
static void *exchange(uint64_t place, void *block)
{
	pthread_mutex_lock(&lock);
	void *old = blocks[place % BLOCKS];

	blocks[place % BLOCKS] = block;
	pthread_mutex_unlock(&lock);
	return old;
}

static void change_mode(uint64_t random)
{
	static const int modes[] = { HG_EXACT, HG_EXACT, HG_TAGS, HG_SAMPLE, HG_DORMANT };

	api->turn(modes[random % 5]);
}

static void map_and_unmap(uint64_t random)
{
	size_t bytes = (1 + random % 8) * 4096;
	char *at = hooked_mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	if (random % 3 == 0) {
		at = hooked_mremap(at, bytes, bytes + 4096, MREMAP_MAYMOVE);
		bytes += 4096;
	}
	hooked_munmap(at, bytes);
}

static void use_pool(uint64_t random)
{
	void *at = in_pool[random % POOL_BLOCKS];

	pthread_mutex_lock(&lock); /* one thread has an address at a time */
	if (random >> 32 & 1)
		api->pool_alloc(pool, at, 1 + random % 100);
	else if (random >> 33 & 1)
		api->pool_resize(pool, at, at, random % 1000);
	else
		api->pool_free(pool, at);
	pthread_mutex_unlock(&lock);
}

static void read_numbers(uint64_t random)
{
	struct hg_stats stats;
	struct hg_site_stats sites[4];

	if (random % 2)
		api->stats(&stats, sizeof stats);
	else
		api->sites(sites, 4, HG_BY_CALLS);
}

static void fork_once(uint64_t random)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		for (uint64_t i = 0; i < 20; i++)
			hooked_free(hooked_malloc(random % 1000 + i));
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Names that others have entered, and some that nobody has. */
static void enter_scope(uint64_t random, size_t size)
{
	char name[32];
	struct hg_scope scope;

	snprintf(name, sizeof name, "scope %lu",
		 (unsigned long)(random % 8 ? random % 100 : random));
	scope = api->enter_name(name, NULL);
	hooked_free(exchange(random >> 4, hooked_malloc(size)));
	api->leave(scope);
}

/* Stacks that threads have in common. */
static NOINLINE void take_deep(int depth, uint64_t place, size_t size)
{
	if (depth > 0)
		take_deep(depth - 1, place, size);
	else
		hooked_free(exchange(place, hooked_malloc(size)));
	__asm__ volatile("");
}

static void operate(uint64_t random)
{
	size_t size = random >> 8 & 15 ? random >> 12 & 511 : random >> 12 & 0xfffff;

	switch (random % 64) {
	case 0:
		change_mode(random >> 16);
		break;
	case 1:
	case 2:
		map_and_unmap(random >> 16);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		use_pool(random >> 16);
		break;
	case 7:
		read_numbers(random >> 16);
		break;
	case 8:
		api->mark(HG_SNAPSHOT_, random >> 16 & 1 ? "one" : "other");
		break;
	case 9:
	case 10:
	case 11:
	case 12:
		enter_scope(random >> 16, size);
		break;
	case 13:
	case 14:
	case 15:
	case 16:
		hooked_free(exchange(random >> 20,
				     hooked_realloc(exchange(random >> 20, NULL), size + 1)));
		break;
	default:
		take_deep((int)(random >> 16) % DEPTHS, random >> 20, size);
	}
}

static void *run(void *seed)
{
	uint64_t random = (uintptr_t)seed * UINT64_C(0x9e3779b97f4a7c15);

	/* All have a slot before one ends: that a thread takes over a slot because the kernel says that its thread has ended is
	 * an order that ThreadSanitizer cannot know. Those of the next round may: the others were waited for. */
	hooked_free(hooked_malloc(1));
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < OPERATIONS; i++)
		operate(unit_random(&random));
	fork_once(random);
	return NULL;
}

static void eight_threads_come_and_go(void **state)
{
	(void)state;
	api = hooked_api();
	pool = api->pool_new("pool");
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (uintptr_t round = 0; round < ROUNDS; round++) {
		pthread_t thread[THREADS];

		for (uintptr_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, run,
							(void *)(round * THREADS + i + 1)),
					 0);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(thread[i], NULL), 0);
	}
	api->turn(HG_EXACT);
	for (int i = 0; i < BLOCKS; i++)
		hooked_free(exchange((uint64_t)i, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_threads_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
