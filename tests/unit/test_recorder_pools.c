/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The blocks of pools against an array of all addresses, while tables grow and are emptied; and what becomes of a free that
 * does not get its lock (H3). The hooks that pools.c calls are played here: every block has one stack. */
#include <string.h>
#include <sys/mman.h>

/* First, so that the next one's names shadow nothing. */
#include "unit.h"

#include "recorder/api/pools.c"

enum { TOTAL_BYTES = 256 << 20, ADDRESSES = 20000, STEPS = 400000 };

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct slot slots[2];
static uint64_t unknown_frees;
bool start_was_forked;

struct slot *hook_enter_slow(const uintptr_t *frame)
{
	(void)frame;
	return NULL;
}

void record_unknown_free(const void *block)
{
	(void)block;
	unknown_frees++;
}

uint32_t counters_of_pool_sample(struct slot *slot, const uintptr_t *frame, uint32_t name)
{
	return counters_of_pool(slot, frame, name, true);
}

uint32_t counters_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name, bool stack)
{
	(void)frame, (void)name, (void)stack;
	return sites_counters_of_site(slot, LIVE_SITE_OTHER_HEAP + LIVE_KIND_POOL);
}

static int make_profile(void **state)
{
	struct live_header *head =
		mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	control.mode = LIVE_MODE_EXACT;
	mode_start();
	if (!sites_start())
		return -1;
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t id = memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));

		slots[i] = (struct slot){ .id = (uint32_t)id, .live = memory_slot((uint32_t)id) };
		slots[i].site_counters = table_new(TABLE_FIRST);
		slots[i].tags = (struct slot_tags *)&tags_none;
	}
	return 0;
}

static struct live_site_counters *counters_of(uint32_t slot)
{
	return memory_counters(counters_of_pool(&slots[slot], NULL, 0, true));
}

static uint64_t live_blocks(void)
{
	return counters_of(0)->calls + counters_of(1)->calls - counters_of(0)->frees -
	       counters_of(1)->frees;
}

static void end(uint32_t slot, uint64_t pool, uintptr_t address)
{
	struct pool_block block = pools_take(&slots[slot], pool, address, false);

	if (block.counters != 0)
		pools_end_block(&slots[slot], pool, &block);
}

static void clear(uint32_t slot, uint64_t handle)
{
	struct pool *pool = pool_of(handle);

	for (int i = 0; i < SHARDS; i++)
		clear_shard(&slots[slot], handle, pool, &pool->shard[i]);
}

/* Fuller and emptier in turn, so that tables are outgrown, emptied in passing, and used again. */
static void what_is_added_is_there_until_it_ends(void **state)
{
	static uint64_t model[ADDRESSES];
	uint64_t pool = pools_make(&slots[0], "model", false), seed = 88172645463325252u, live = 0;

	(void)state;
	assert_int_not_equal(pool, 0);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)(unit_random(&seed) % ADDRESSES);
		uintptr_t address = 0x1000 + 3 * i;
		bool put = unit_random(&seed) % 8 < (step / 50000 % 2 ? 2 : 6);

		if (put && model[i] == 0) {
			model[i] = 1 + unit_random(&seed) % 100;
			assert_int_not_equal(
				pools_add(&slots[step % 2], pool, address, model[i], NULL), 0);
			live++;
		} else if (!put) {
			struct pool_block block = pools_take(&slots[0], pool, address, false);

			assert_int_equal(block.bytes, model[i]);
			if (model[i] != 0)
				pools_end_block(&slots[0], pool, &block);
			live -= model[i] != 0;
			model[i] = 0;
		}
		if (step % 100000 == 99999)
			assert_int_equal(live_blocks(), live);
	}
	clear(1, pool);
	assert_int_equal(live_blocks(), 0);
	assert_int_equal(pool_counters_of(name_of(pool))->live_bytes, 0);
}

/* Small aligned blocks have words; large ones, and those that would share a word, are in the tables. */
static void blocks_with_words_are_there_until_they_end(void **state)
{
	static uint64_t model[ADDRESSES];
	uint64_t pool = pools_make(&slots[0], "words", true), seed = 362436069u, live = 0,
		 shared = 0;

	(void)state;
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)(unit_random(&seed) % ADDRESSES);
		uintptr_t address = UINT64_C(0x7f0000000000) + i / 2000 * 0xffff0 + i % 2000 * 8;
		bool put = unit_random(&seed) % 8 < (step / 50000 % 2 ? 2 : 6);

		if (put && model[i] == 0) {
			model[i] = 1 + unit_random(&seed) % (2 * LIVE_SMALL_LIMIT);
			assert_int_not_equal(
				pools_add(&slots[step % 2], pool, address, model[i], NULL), 0);
			live++;
		} else if (!put) {
			struct pool_block block = pools_take(&slots[0], pool, address, false);

			assert_int_equal(block.bytes, model[i]);
			if (model[i] != 0)
				pools_end_block(&slots[0], pool, &block);
			live -= model[i] != 0;
			model[i] = 0;
		}
		shared += model[i] != 0 && model[i ^ 1] != 0;
		if (step % 100000 == 99999)
			assert_int_equal(live_blocks(), live);
	}
	assert_true(shared > 1000);
	for (uint32_t i = 0; i < ADDRESSES; i++) {
		if (model[i] != 0)
			end(i % 2, pool,
			    UINT64_C(0x7f0000000000) + i / 2000 * 0xffff0 + i % 2000 * 8);
	}
	assert_int_equal(live_blocks(), 0);
	assert_int_equal(pool_counters_of(name_of(pool))->live_bytes, 0);
}

/* A free that was not seen: the block ends when its address is given out again. Later blocks than a word has a birth for are in the tables. */
static void words_are_repaired_and_do_not_grow_old(void **state)
{
	uint64_t pool = pools_make(&slots[0], "old", true);
	uint64_t before = memory.head->health[HEALTH_repaired_blocks];
	struct pool_block block;

	(void)state;
	pools_add(&slots[0], pool, 0x7e0000000010, 10, NULL);
	pools_add(&slots[1], pool, 0x7e0000000010, 20, NULL);
	assert_int_equal(memory.head->health[HEALTH_repaired_blocks], before + 1);
	assert_int_equal(live_blocks(), 1);
	assert_int_equal(*pool_word(&slots[0], 0x7e0000000010, false) & 0xfff, 20);
	pools_add(&slots[0], pool, 0x7e0000000010, LIVE_SMALL_LIMIT,
		  NULL); /* large: in the tables */
	assert_int_equal(memory.head->health[HEALTH_repaired_blocks], before + 2);
	assert_int_equal(live_blocks(), 1);
	block = pools_take(&slots[0], pool, 0x7e0000000010, false);
	assert_int_equal(block.bytes, LIVE_SMALL_LIMIT);
	pools_end_block(&slots[0], pool, &block);
	control.clock_ms = (uint64_t)LIVE_BIRTH_MASK + 5;
	pools_add(&slots[0], pool, 0x7e0000000010, 10, NULL);
	assert_int_equal(*pool_word(&slots[0], 0x7e0000000010, false), 0);
	block = pools_take(&slots[0], pool, 0x7e0000000010, false);
	assert_int_equal(block.birth_ms, (uint64_t)LIVE_BIRTH_MASK + 5);
	pools_end_block(&slots[0], pool, &block);
	assert_int_equal(live_blocks(), 0);
	/* No program has such a handle: it would skip the checks of one. */
	assert_int_equal(pools_given(pool), 0);
	assert_int_equal(pools_given(UINT64_MAX), 0);
}

static uint64_t unknown_ends(void)
{
	return memory.head->health[HEALTH_unknown_ends];
}

static void hold_all(uint64_t handle, bool hold)
{
	for (int i = 0; i < SHARDS; i++)
		pool_of(handle)->shard[i].lock.word = hold ? 7 + LOCK_GIVE_UPS * LOCK_GIVEN_UP : 0;
}

static void a_free_without_the_lock_is_made_up_for(void **state)
{
	uint64_t pool = pools_make(&slots[0], "late", false), before = unknown_frees;

	(void)state;
	for (uintptr_t i = 1; i <= 100; i++)
		pools_add(&slots[0], pool, 0x1000 + i * 16, 10, NULL);
	hold_all(pool, true); /* by somebody who has vanished */
	for (uintptr_t i = 1; i <= 50; i++)
		end(1, pool, 0x1000 + i * 16);
	assert_int_equal(unknown_ends(), 50);
	assert_int_equal(live_blocks(), 100);
	/* What is added meanwhile is not recorded, or it would never end. */
	assert_int_equal(pools_add(&slots[0], pool, 0x1000 + 16, 10, NULL), 0);
	assert_int_equal(live_blocks(), 100);
	hold_all(pool, false);
	/* At the address of one that ended there is a new one: that one stays. */
	for (uintptr_t i = 1; i <= 50; i++)
		assert_int_not_equal(pools_add(&slots[0], pool, 0x1000 + i * 16, 20, NULL), 0);
	assert_int_equal(unknown_ends(), 0);
	assert_int_equal(live_blocks(), 100);
	assert_int_equal(pool_counters_of(name_of(pool))->live_bytes, 50 * 10 + 50 * 20);
	for (uintptr_t i = 1; i <= 100; i++)
		end(0, pool, 0x1000 + i * 16);
	assert_int_equal(live_blocks(), 0);
	assert_int_equal(unknown_frees, before);
}

static void a_pool_that_ends_without_its_locks_ends_later(void **state)
{
	uint64_t pool = pools_make(&slots[0], "cleared", false);

	(void)state;
	for (uintptr_t i = 1; i <= 100; i++)
		pools_add(&slots[0], pool, 0x1000 + i * 16, 10, NULL);
	hold_all(pool, true);
	end(1, pool, 0x1000 + 16);
	clear(1, pool);
	assert_int_equal(live_blocks(), 100);
	hold_all(pool, false);
	/* Its number may be another pool's now. */
	uint64_t heir =
		(uint64_t)tags_name(&slots[0], LIVE_TAG_POOL, "heir") << 32 | (uint32_t)pool;

	for (uintptr_t i = 1; i <= 100; i++)
		pools_add(&slots[0], heir, 0x1000 + i * 16, 20, NULL);
	assert_int_equal(unknown_ends(), 0);
	assert_int_equal(live_blocks(), 100);
	assert_int_equal(pool_counters_of(name_of(pool))->live_bytes, 0);
	assert_int_equal(pool_counters_of(name_of(heir))->live_bytes, 100 * 20);
	clear(0, heir);
	assert_int_equal(live_blocks(), 0);
}

/* What does not fit into the list stays counted. */
static void more_ends_than_can_be_kept_are_told(void **state)
{
	enum { MANY = DEFERRED_FREES_MAX + 100 };
	uint64_t pool = pools_make(&slots[0], "many", false);

	(void)state;
	for (uintptr_t i = 1; i <= MANY; i++)
		pools_add(&slots[0], pool, 0x1000 + i * 16, 10, NULL);
	hold_all(pool, true);
	for (uintptr_t i = 1; i <= MANY; i++)
		end(0, pool, 0x1000 + i * 16);
	hold_all(pool, false);
	clear(0, pool);
	assert_int_equal(unknown_ends(), MANY - DEFERRED_FREES_MAX);
	assert_int_equal(live_blocks(), 0);
}

/* A hook that is left while a block is moved to where another one was leaves it twice. When it is freed, one of the two stays,
 * and one fewer is counted than there are: after a few of these a search in a full table would not end. */
static void blocks_that_a_hook_has_left_twice_are_counted(void **state)
{
	uint64_t handle = pools_make(&slots[0], "torn", false);
	struct shard *shard = shard_of(pool_of(handle), 0x9000);
	uint32_t before;

	(void)state;
	for (uintptr_t i = 0; i < 1000; i++)
		pools_add(&slots[0], handle, 0x9000 + i, 1, NULL);
	before = shard->table->used;
	assert_true(acquire_lock(&slots[0], handle, pool_of(handle), shard));
	shard->table->used -= 7;
	pools_recover(&slots[0]);
	assert_false(lock_is_held(&shard->lock));
	assert_int_equal(shard->table->used, before);
	clear(0, handle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_added_is_there_until_it_ends),
		cmocka_unit_test(blocks_with_words_are_there_until_they_end),
		cmocka_unit_test(words_are_repaired_and_do_not_grow_old),
		cmocka_unit_test(a_free_without_the_lock_is_made_up_for),
		cmocka_unit_test(a_pool_that_ends_without_its_locks_ends_later),
		cmocka_unit_test(more_ends_than_can_be_kept_are_told),
		cmocka_unit_test(blocks_that_a_hook_has_left_twice_are_counted),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
