/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The list of sampled blocks against an array of all addresses: random puts, takes and looks; and threads that look while
 * others make the index anew. Seeds are fixed. H3: the end of a sample needs no lock, so it is never lost. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "recorder/sampling/sampled_blocks.c"
#include "unit.h"

enum { TOTAL_BYTES = 128 << 20, ADDRESSES = 6000, STEPS = 400000 };

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct slot slots[3];

static int make_profile(void **state)
{
	struct live_header *head =
		mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	sampled_blocks_reset();
	for (uint32_t i = 0; i < 3; i++)
		slots[i].id = i;
	return 0;
}

/* Close together, 64 GiB apart (the same tag), and 8 bytes apart. */
static uintptr_t address_of(uint32_t i)
{
	return 0x7f0000000000 + (i % 3) * (UINT64_C(1) << 36) + i / 3 * 40;
}

static uint32_t listed(void)
{
	const struct live_sampled *entry = (const void *)memory.region[LIVE_SAMPLED];
	uint32_t count = 0;

	for (uint64_t i = 0; i < memory.head->used[LIVE_SAMPLED]; i++)
		count += entry[i].address != 0;
	return count;
}

static void assert_same(const struct block *a, const struct block *b)
{
	assert_int_equal(a->counters, b->counters);
	assert_int_equal(a->weight, b->weight);
	assert_int_equal(a->birth_ms, b->birth_ms);
	assert_int_equal(a->size_bytes, b->size_bytes);
}

static void what_is_put_is_there_until_it_is_taken(void **state)
{
	static struct block model[ADDRESSES];
	uint32_t random = 1, holds = 0, most = 0;

	(void)state;
	for (uint32_t step = 0; step < STEPS; step++) {
		random = random * 1664525 + 1013904223;
		uint32_t i = (random >> 8) % ADDRESSES;
		/* fuller and emptier in turn, so that the index grows and fills with what is gone */
		bool put = (random >> 4) % 8 < (step / 50000 % 2 ? 3 : 5);

		if (put) {
			/* R11: in the tenth year, too */
			struct block block = { 1 + random % 1000, 7, step * UINT64_C(999983),
					       1 + random % 5000 },
				     old;

			assert_true(sampled_blocks_put(&slots[0], address_of(i), &block, &old));
			assert_int_equal(old.counters, model[i].counters);
			if (model[i].counters != 0)
				assert_same(&old, &model[i]);
			holds += model[i].counters == 0;
			model[i] = block;
		} else {
			struct block block = sampled_blocks_take(address_of(i));

			assert_same(&block, &model[i]);
			holds -= model[i].counters != 0;
			model[i] = (struct block){ 0 };
		}
		most = holds > most ? holds : most;
		uint32_t other = (random >> 12) % ADDRESSES;

		assert_int_equal(sampled_blocks_has(address_of(other)), model[other].counters != 0);
		if (model[other].counters != 0)
			assert_true(sampled_blocks_may_have((const void *)address_of(other)));
	}
	assert_int_equal(listed(), holds);
	assert_true(memory.head->used[LIVE_SAMPLED] <= most + 1);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		sampled_blocks_take(address_of(i));
	assert_int_equal(listed(), 0);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		assert_false(sampled_blocks_may_have((const void *)address_of(i)));
}

static bool stop;

/* Its own address is there all the time. */
static void *look(void *missed)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (!sampled_blocks_may_have((const void *)(uintptr_t)0x1000))
			++*(uint64_t *)missed;
	}
	return NULL;
}

static void who_looks_while_the_index_is_made_anew_misses_nothing(void **state)
{
	struct block block = { 1, 1, 0, 100 }, old;
	pthread_t thread;
	uint64_t missed = 0;

	(void)state;
	assert_true(sampled_blocks_put(&slots[1], 0x1000, &block, &old));
	assert_int_equal(pthread_create(&thread, NULL, look, &missed), 0);
	for (uint32_t i = 0; i < 300000; i++) {
		sampled_blocks_put(&slots[1], address_of(i % 200), &block, &old);
		sampled_blocks_take(address_of(i % 200));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(missed, 0);
}

enum { TAKERS = 6, TAKER_STEPS = 60000, OWN = 300 };

/* Blocks of its own; and now and then one that another thread puts down for it. */
static uintptr_t handed[TAKERS];

static void *put_and_take(void *arg)
{
	uintptr_t me = (uintptr_t)arg, wrong = 0;
	struct slot slot = { .id = (uint32_t)me };
	struct block block = { 1 + (uint32_t)me, 1, 0, 100 }, old;
	bool there[OWN] = { false };

	for (uint32_t step = 0, random = (uint32_t)me; step < TAKER_STEPS; step++) {
		random = random * 1664525 + 1013904223;
		uint32_t i = (random >> 8) % OWN;
		uintptr_t address = 0x10000000 + (me * OWN + i) * 32;

		if (there[i])
			wrong += sampled_blocks_take(address).counters != block.counters;
		else
			wrong += !sampled_blocks_put(&slot, address, &block, &old) ||
				 old.counters != 0;
		there[i] = !there[i];
		wrong += there[i] != sampled_blocks_may_have((const void *)address) && there[i];
		uintptr_t mine = __atomic_exchange_n(&handed[me], 0, __ATOMIC_ACQ_REL);

		if (mine != 0)
			wrong += sampled_blocks_take(mine).counters == 0;
		uintptr_t *other = &handed[(random >> 20) % TAKERS], none = 0;

		address = 0x20000000 + (me * TAKER_STEPS + step) * 32;
		if (step % 16 != 0 || __atomic_load_n(other, __ATOMIC_RELAXED) != 0)
			continue;
		wrong += !sampled_blocks_put(&slot, address, &block, &old);
		if (!__atomic_compare_exchange_n(other, &none, address, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			wrong += sampled_blocks_take(address).counters == 0;
	}
	for (uint32_t i = 0; i < OWN; i++) {
		if (there[i])
			wrong +=
				sampled_blocks_take(0x10000000 + (me * OWN + i) * 32).counters == 0;
	}
	return (void *)wrong;
}

static void threads_that_take_while_others_put_lose_nothing(void **state)
{
	pthread_t thread[TAKERS];
	uintptr_t wrong = 0;
	uint32_t before = listed();

	(void)state;
	for (uintptr_t i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, put_and_take, (void *)i), 0);
	for (int i = 0; i < TAKERS; i++) {
		void *one;

		pthread_join(thread[i], &one);
		wrong += (uintptr_t)one;
	}
	for (int i = 0; i < TAKERS; i++) {
		if (handed[i] != 0)
			wrong += sampled_blocks_take(handed[i]).counters == 0;
	}
	if (memory.head->health[HEALTH_lock_timeouts] > 0)
		skip(); /* the machine is too busy: what could not be put cannot be taken */
	assert_int_equal(wrong, 0);
	assert_int_equal(listed(), before);
	assert_in_range(memory.head->used[LIVE_SAMPLED], 1, 4 * TAKERS * OWN + ADDRESSES);
}

static void a_sample_ends_although_the_lock_is_not_given_back(void **state)
{
	struct block block = { 9, 1, 0, 100 }, old;
	uint32_t before = listed();

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		assert_true(sampled_blocks_put(&slots[0], address_of(i), &block, &old));
	sampled_blocks_lock.word = 7; /* whose owner has vanished */
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(sampled_blocks_take(address_of(i)).counters, 9);
	assert_int_equal(listed(), before);
	assert_false(sampled_blocks_put(&slots[0], address_of(0), &block, &old));
	assert_int_equal(listed(), before);
	sampled_blocks_lock.word = 0;
	assert_true(sampled_blocks_put(&slots[0], address_of(0), &block, &old));
	assert_int_equal(old.counters, 0);
	assert_int_equal(sampled_blocks_take(address_of(0)).counters, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_there_until_it_is_taken),
		cmocka_unit_test(who_looks_while_the_index_is_made_anew_misses_nothing),
		cmocka_unit_test(threads_that_take_while_others_put_lose_nothing),
		cmocka_unit_test(a_sample_ends_although_the_lock_is_not_given_back),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
