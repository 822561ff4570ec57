/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-checked format base */
/* Everything that may be refused to the recorder is refused in turn: each opening of memory, each system call, each lock, alone and
 * with all that come after it. The program goes on: nothing crashes, no invariant breaks, and calls are recorded or counted.
 *
 * Each time in a child of its own, which does something of every kind. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heapgauge/stats.h"
#include "hooked.h"
#include "recorder/checks/chaos.h"
#include "recorder/hooks/free.h"
#include "unit.h"

enum { TURNS_MOST = 3000, NOT_REACHED = 3, WRONG_NUMBERS = 4, PAGE = 4096, BLOCKS = 40 };

static uint64_t calls; /* of hooked_malloc and its like that the child makes */

static void *take(size_t bytes)
{
	void *block = hooked_malloc(bytes);

	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return block;
}

static NOINLINE void deep(int depth)
{
	if (depth > 0)
		deep(depth - 1);
	else
		hooked_free(take(70));
	__asm__ volatile("");
}

static void use_scopes(const struct hg_recorder_ *api)
{
	struct hg_scope outer = api->enter_name("outer", NULL);
	struct hg_scope inner = api->enter_name("inner", NULL);

	hooked_free(take(100));
	api->label("key", "value");
	hooked_free(take(100));
	api->leave(inner);
	api->leave(outer);
}

static void use_pool(const struct hg_recorder_ *api)
{
	static char block[BLOCKS][16];
	uint64_t pool = api->pool_new("pool");

	for (int i = 0; i < BLOCKS && pool != 0; i++)
		api->pool_alloc(pool, block[i], 16);
	if (pool != 0) {
		api->pool_resize(pool, block[0], block[0], 10);
		api->pool_free(pool, block[1]);
		api->pool_clear(pool, 1);
	}
}

static void use_maps(void)
{
	char *at = hooked_mmap(NULL, 8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	hooked_munmap(at + PAGE, PAGE);
	at = hooked_mremap(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
	hooked_munmap(at, 2 * PAGE);
}

static void *use_all(void *unused)
{
	const struct hg_recorder_ *api = hooked_api();
	static struct hg_site_stats sites[8];
	struct hg_stats stats;
	void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = take(i * i * 10);
	for (int i = 0; i < 10; i++)
		deep(i);
	blocks[0] = hooked_realloc(blocks[0], 9000);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	use_scopes(api);
	use_pool(api);
	use_maps();
	api->mark(HG_SNAPSHOT_, "moment");
	api->stats(&stats, sizeof stats);
	api->sites(sites, 8, HG_BY_BYTES);
	for (size_t i = 0; i < BLOCKS; i++)
		hooked_free(blocks[i]);
	return unused;
}

/* Exactly recorded, with or without its stack, or counted as not recorded; the frees are calls of this kind too. */
static bool all_calls_are_accounted_for(void)
{
	uint64_t recorded = 0, lost = 0;

	if (memory.head == NULL)
		return true; /* it did not begin */
	for (uint32_t i = 0; i < memory.head->used[LIVE_SLOTS]; i++)
		recorded += memory_slot(i)->calls;
	lost = memory.head->health[HEALTH_unregistered_calls] +
	       memory.head->health[HEALTH_early_calls];
	return recorded <= calls && recorded + lost >= calls;
}

__attribute__((noreturn)) static void run_child(enum chaos_kind kind, uint64_t turn, bool all)
{
	const struct hg_recorder_ *api = hooked_api();
	pthread_t thread;

	signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
	signal(SIGILL, SIG_DFL);
	alarm(60);
	chaos_schedule[kind] = (struct chaos_schedule){ turn, all };
	use_all(NULL); /* the first hook makes a profile for this child */
	pthread_create(&thread, NULL, use_all, NULL);
	pthread_join(thread, NULL);
	struct chaos_schedule kept = chaos_schedule[kind];

	chaos_schedule[kind] = (struct chaos_schedule){ 0 };
	if (!all_calls_are_accounted_for())
		_exit(WRONG_NUMBERS);
	api->turn(HG_SAMPLE);
	chaos_schedule[kind] = kept;
	for (int i = 0; i < BLOCKS; i++)
		hooked_free(take(1 << 20));
	_exit(chaos_schedule[kind].left > all ? NOT_REACHED : 0);
}

static void refuse_in_turn(enum chaos_kind kind, bool all)
{
	uint64_t turn = 1;

	for (; turn < TURNS_MOST; turn++) {
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (child == 0)
			run_child(kind, turn, all);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_REACHED)
			break;
		if (status != 0)
			fail_msg("the %lu. of kind %d refused, and %s: status %#x",
				 (unsigned long)turn, kind, all ? "all after it" : "no other",
				 (unsigned)status);
	}
	assert_in_range(turn, 10, TURNS_MOST - 1); /* something was refused, and at last nothing */
}

static void memory_is_refused(void **state)
{
	(void)state;
	refuse_in_turn(CHAOS_PAGES, false);
	refuse_in_turn(CHAOS_PAGES, true);
}

static void system_calls_are_refused(void **state)
{
	(void)state;
	refuse_in_turn(CHAOS_CALL, false);
	refuse_in_turn(CHAOS_CALL, true);
}

static void locks_are_refused(void **state)
{
	(void)state;
	refuse_in_turn(CHAOS_LOCK, false);
	refuse_in_turn(CHAOS_LOCK, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_refused),
		cmocka_unit_test(system_calls_are_refused),
		cmocka_unit_test(locks_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
