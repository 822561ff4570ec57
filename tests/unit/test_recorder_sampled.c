/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The list of sampled blocks against an array of all addresses: random puts, takes and looks; and threads that look while
 * others make the index anew. Seeds are fixed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "recorder/sampled.h"
#include "unit.h"

enum { TOTAL_BYTES = 64 << 20, ADDRESSES = 6000, STEPS = 400000 };

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
	sampled_reset();
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

static void what_is_put_is_there_until_it_is_taken(void **state)
{
	static struct block model[ADDRESSES];
	uint32_t random = 1, live = 0, most = 0;

	(void)state;
	for (uint32_t step = 0; step < STEPS; step++) {
		random = random * 1664525 + 1013904223;
		uint32_t i = (random >> 8) % ADDRESSES;
		/* fuller and emptier in turn, so that the index grows and fills with what is gone */
		bool put = (random >> 4) % 8 < (step / 50000 % 2 ? 3 : 5);

		if (put) {
			struct block block = { 1 + random % 1000, step, 1 + random % 5000 }, old;

			assert_true(sampled_put(&slots[0], address_of(i), &block, 7, &old));
			assert_memory_equal(&old.record, &model[i].record, sizeof old.record);
			if (model[i].record != 0)
				assert_memory_equal(&old, &model[i], sizeof old);
			live += model[i].record == 0;
			model[i] = block;
		} else {
			struct block block = sampled_take(address_of(i));

			assert_memory_equal(&block, &model[i], sizeof block);
			live -= model[i].record != 0;
			model[i] = (struct block){ 0 };
		}
		most = live > most ? live : most;
		uint32_t other = (random >> 12) % ADDRESSES;

		if (model[other].record != 0)
			assert_true(sampled_may_have((const void *)address_of(other)));
	}
	assert_int_equal(listed(), live);
	assert_true(memory.head->used[LIVE_SAMPLED] <= most + 1);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		sampled_take(address_of(i));
	assert_int_equal(listed(), 0);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		assert_false(sampled_may_have((const void *)address_of(i)));
}

static bool stop;

/* Its own address is there all the time. */
static void *look(void *missed)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (!sampled_may_have((const void *)(uintptr_t)0x1000))
			++*(uint64_t *)missed;
	}
	return NULL;
}

static void who_looks_while_the_index_is_made_anew_misses_nothing(void **state)
{
	struct block block = { 1, 0, 100 }, old;
	pthread_t thread;
	uint64_t missed = 0;

	(void)state;
	assert_true(sampled_put(&slots[1], 0x1000, &block, 1, &old));
	assert_int_equal(pthread_create(&thread, NULL, look, &missed), 0);
	for (uint32_t i = 0; i < 300000; i++) {
		sampled_put(&slots[1], address_of(i % 200), &block, 1, &old);
		sampled_take(address_of(i % 200));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(missed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_there_until_it_is_taken),
		cmocka_unit_test(who_looks_while_the_index_is_made_anew_misses_nothing),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
