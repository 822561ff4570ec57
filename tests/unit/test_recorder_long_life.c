/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* R11, R10: ages and lifetimes in processes that are old. Blocks are entered and taken as the hooks do it, while the clock is set; what
 * the map, the histograms and the reader say is compared with what was done. Seeds are fixed. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "format/live/live_read.h"
#include "recorder/hooks/free.h"
#include "recorder/api/pools.h"
#include "unit.h"

#define TOTAL_BYTES (256ull << 20)
#define HOUR_MS (3600 * 1000ull)
#define DAY_MS (24 * HOUR_MS)
#define ERA_MS (1ull << LIVE_SMALL_BIRTH_BITS)
enum { SITE = LIVE_SITE_FIRST, COUNTERS = 1, BLOCKS = 3000, STEPS = 60000, CLASSES = 65 };

static const uint64_t uptimes_ms[] = { HOUR_MS,	     DAY_MS,	    10 * DAY_MS,   50 * DAY_MS,
				       366 * DAY_MS, 3653 * DAY_MS, 25000 * DAY_MS };

static struct live_control control;
static struct slot slot;

static void begin(bool packed_tightly, uint64_t budget_bytes)
{
	struct live_header *head = mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(head, MAP_FAILED);
	assert_int_equal(live_header_init(head, TOTAL_BYTES), 0);
	control = (struct live_control){ .budget_bytes = budget_bytes, .depth_limit = 16 };
	memory_use(head, &control);
	head->granule_shift = BLOCKS_GRANULE_SHIFT;
	head->ready = 1;
	head->peak.state = 1 << 1 | 1;
	blocks_reset();
	blocks_start(packed_tightly);
	account_reset();
	slot = (struct slot){ 0 };
	memory_append(LIVE_FRAMES, 4, sizeof(uint64_t));
	memory_append(LIVE_NODES, 4, sizeof(struct live_node));
	memory_append(LIVE_SITES, SITE + 1, sizeof(struct live_site));
	memory_append(LIVE_SITE_COUNTERS, COUNTERS + 1, sizeof(struct live_site_counters));
	memory_append(LIVE_POOL, 1, LIVE_POOL_UNIT);
	memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));
	slot.live = memory_slot(0);
	memory_counters(COUNTERS)->site = SITE;
	account_join(&slot);
}

static void end(void)
{
	munmap(memory.head, TOTAL_BYTES);
}

static void set_clock(uint64_t ms)
{
	control.clock_ms = live_clock(ms);
}

/* As record_block and record_put do it. */
static void put(uintptr_t address, uint64_t size)
{
	uint64_t *word = blocks_expect(&slot.block_cache, address, size);

	if (!blocks_put_fast(&slot.block_cache, word, address, COUNTERS, clock_ms(), size)) {
		struct block entry = { COUNTERS, 1, clock_ms(), size }, old;

		blocks_put(&slot.block_cache, address, &entry, &old);
		assert_int_equal(old.counters, 0);
	}
	account_alloc(&slot, memory_counters(COUNTERS), size, 0, 1);
}

static struct block take(uintptr_t address)
{
	struct block block = blocks_take(&slot.block_cache, address);

	assert_int_equal(block.counters, COUNTERS);
	account_free(&slot, memory_counters(COUNTERS), block.size_bytes, 0, block.birth_ms, false,
		     1);
	return block;
}

static unsigned class_of(uint64_t ms)
{
	return ms ? 64 - (unsigned)__builtin_clzll(ms) : 0;
}

/* Blocks by age, and freed ones by lifetime, as a recording would have them. */
struct shown {
	uint64_t ages[CLASSES], lifetimes[CLASSES], lifetime_ms_sum;
};

static struct shown read_profile(void)
{
	struct process_rows rows;
	struct shown shown = { { 0 }, { 0 }, 0 };

	assert_int_equal(
		live_read_rows(memory.head, TOTAL_BYTES, NULL, LIVE_MODE_EXACT, &rows, NULL), 0);
	assert_int_equal(live_read_ages(memory.head, TOTAL_BYTES, clock_ms(), &rows, NULL), 0);
	for (size_t i = 0; i < rows.age_count; i++)
		shown.ages[rows.ages[i].bucket] += rows.ages[i].blocks;
	assert_int_equal(rows.site_counters_count, 1);
	const struct site_counters_row *counters = &rows.site_counters[0];

	for (uint32_t i = 0; i < counters->lifetimes_count; i++) {
		const struct bar *bar = &rows.bars[counters->lifetimes_at + i];

		shown.lifetimes[class_of(bar->low)] += bar->count;
	}
	shown.lifetime_ms_sum = counters->lifetime_ms_sum;
	process_rows_release(&rows);
	return shown;
}

/* 16 KiB apart, so that each has a page and a granule of its own. */
static uintptr_t address_of(uint64_t number)
{
	return 0x10000000 + number * 16384;
}

/* Tiny or small, small, large. */
static const uint64_t sizes[] = { 16, 200, 8000 };

/* For every age that the process has room for, one block of each size. Then all are freed at once: they lived as long. */
static void every_age_and_lifetime_is_shown(uint64_t uptime_ms, bool packed_tightly)
{
	struct shown truth = { { 0 }, { 0 }, 0 }, shown;
	uint64_t count = 0;

	begin(packed_tightly, UINT64_MAX);
	for (uint64_t age = uptime_ms;; age = age * 2 / 3) {
		set_clock(uptime_ms - age);
		uint64_t lived = live_clock(uptime_ms) - clock_ms();

		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
			put(address_of(count++), sizes[i]);
		truth.ages[class_of(lived)] += ARRAY_SIZE(sizes);
		truth.lifetime_ms_sum += lived * ARRAY_SIZE(sizes);
		if (age == 0)
			break;
	}
	set_clock(uptime_ms);
	shown = read_profile();
	assert_memory_equal(shown.ages, truth.ages, sizeof truth.ages);
	while (count > 0)
		take(address_of(--count));
	shown = read_profile();
	/* The last class is open. */
	for (unsigned i = LIVE_LIFETIME_BUCKETS + 1; i < CLASSES; i++) {
		truth.ages[LIVE_LIFETIME_BUCKETS] += truth.ages[i];
		truth.ages[i] = 0;
	}
	assert_memory_equal(shown.lifetimes, truth.ages, sizeof truth.ages);
	assert_int_equal(shown.lifetime_ms_sum, truth.lifetime_ms_sum);
	assert_int_equal(memory.head->health[HEALTH_lost_details], 0);
	end();
}

static void ages_and_lifetimes_are_exact_at_every_uptime(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(uptimes_ms); i++) {
		every_age_and_lifetime_is_shown(uptimes_ms[i], false);
		every_age_and_lifetime_is_shown(uptimes_ms[i], true);
	}
}

/* As the review found it: blocks that lived 100 ms, in processes of any age. None of them is below 1 ms. */
static void a_block_that_lived_100_ms_did_so_at_every_uptime(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(uptimes_ms); i++) {
		begin(false, UINT64_MAX);
		for (uint64_t n = 0; n < 100; n++) {
			set_clock(uptimes_ms[i] + n * 1000);
			put(address_of(n % 3), 100);
			set_clock(uptimes_ms[i] + n * 1000 + 100);
			take(address_of(n % 3));
		}
		assert_int_equal(read_profile().lifetimes[class_of(100)], 100);
		end();
	}
}

struct made_block {
	uint64_t birth_ms, size; /* size 0: none */
};

static void compare_ages(const struct made_block *blocks)
{
	struct shown shown = read_profile();
	uint64_t ages[CLASSES] = { 0 };

	for (size_t i = 0; i < BLOCKS; i++)
		if (blocks[i].size != 0)
			ages[class_of(clock_ms() - blocks[i].birth_ms)]++;
	assert_memory_equal(shown.ages, ages, sizeof ages);
}

/* Granules are used again and again, over eras; some blocks stay for years. Time passes by milliseconds, hours and months. */
static void a_random_history_of_ten_years(uint64_t seed, bool packed_tightly)
{
	static struct made_block blocks[BLOCKS];
	uint64_t ms = ERA_MS - 100000;

	memset(blocks, 0, sizeof blocks);
	begin(packed_tightly, UINT64_MAX);
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t random = unit_random(&seed), i = random % BLOCKS;
		/* A page apart, or a granule: addresses of small blocks that are neighbours. */
		uintptr_t address = i < BLOCKS / 2 ? address_of(i) : 0x7f0000000000 + i * 32;

		ms += random >> 20 & 7;
		if (step % 5000 == 4999)
			ms += unit_random(&seed) % (300 * DAY_MS);
		set_clock(ms);
		if (blocks[i].size != 0) {
			struct block block = take(address);

			assert_int_equal(block.birth_ms, blocks[i].birth_ms);
			assert_int_equal(block.size_bytes, blocks[i].size);
			blocks[i].size = 0;
		} else {
			blocks[i] = (struct made_block){ clock_ms(),
							 i < BLOCKS / 2 ? sizes[random >> 40 & 1]
									: 24 };
			if (random >> 50 & 1 && i < BLOCKS / 2)
				blocks[i].size = sizes[2];
			put(address, blocks[i].size);
		}
		if (step % 1000 == 0)
			compare_ages(blocks);
	}
	assert_true(ms > 3 * 366 * DAY_MS);
	end();
}

static void births_are_right_while_granules_are_used_over_years(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++)
		a_random_history_of_ten_years(seed, seed % 2);
}

static void a_process_that_ends_in_its_first_era_has_no_memory_for_them(void **state)
{
	(void)state;
	begin(false, UINT64_MAX);
	set_clock(ERA_MS - 1);
	for (uint64_t n = 0; n < 100; n++)
		put(address_of(n), 100);
	assert_int_equal(memory.head->opened[LIVE_ERAS] + memory.head->opened[LIVE_LEAF_ERAS], 0);
	set_clock(ERA_MS);
	put(address_of(100), 100);
	/* A leaf is a MiB of heap, its eras are a sixteenth of that. */
	assert_int_equal(memory.head->opened[LIVE_ERAS], 1 << (LIVE_SMALL_SHIFT - 4));
	end();
}

/* No age, rather than a wrong one; and it is counted. The blocks themselves are known. */
static void without_memory_for_eras_a_birth_is_not_known(void **state)
{
	(void)state;
	begin(false, UINT64_MAX);
	put(address_of(0), 100);
	put(address_of(1), 100);
	control.budget_bytes = 0;
	set_clock(10 * DAY_MS);
	take(address_of(0));
	put(address_of(2), 100);
	put(address_of(3), 100);
	assert_int_equal(memory.head->health[HEALTH_lost_details], 2);
	assert_int_equal(memory.head->health[HEALTH_untracked_blocks], 0);
	struct shown shown = read_profile();

	for (unsigned i = 0; i < CLASSES; i++)
		assert_int_equal(shown.ages[i], i == class_of(10 * DAY_MS));
	/* There is memory again: blocks from now on have their age, those are as they were. */
	control.budget_bytes = UINT64_MAX;
	put(address_of(4), 100);
	set_clock(10 * DAY_MS + 100);
	assert_false(live_birth_is_known(take(address_of(2)).birth_ms));
	shown = read_profile();
	assert_int_equal(shown.ages[class_of(100)], 1);
	assert_int_equal(shown.ages[class_of(10 * DAY_MS)], 1);
	assert_int_equal(shown.lifetime_ms_sum, live_clock(10 * DAY_MS)); /* of the first one */
	for (unsigned i = 0; i < CLASSES; i++)
		assert_int_equal(shown.lifetimes[i], i == class_of(10 * DAY_MS));
	end();
}

/* Damage, or eras that were made after the reader had read how many there are. */
static void eras_that_are_not_there_are_no_ages(void **state)
{
	(void)state;
	begin(false, UINT64_MAX);
	set_clock(10 * DAY_MS);
	put(address_of(0), 100);
	*(uint32_t *)(void *)memory.region[LIVE_LEAF_ERAS] = 1234567;
	struct shown shown = read_profile();

	for (unsigned i = 0; i < CLASSES; i++)
		assert_int_equal(shown.ages[i], 0);
	end();
}

static void a_block_of_a_pool_has_room_for_ten_years(void **state)
{
	struct pool_block block = { .counters = (1u << LIVE_SMALL_COUNTERS_BITS) - 1 };

	(void)state;
	block.birth_ms = 3653 * DAY_MS;
	assert_int_equal(block.birth_ms, 3653 * DAY_MS);
	assert_int_equal(block.counters, (1u << LIVE_SMALL_COUNTERS_BITS) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ages_and_lifetimes_are_exact_at_every_uptime),
		cmocka_unit_test(a_block_that_lived_100_ms_did_so_at_every_uptime),
		cmocka_unit_test(births_are_right_while_granules_are_used_over_years),
		cmocka_unit_test(a_process_that_ends_in_its_first_era_has_no_memory_for_them),
		cmocka_unit_test(without_memory_for_eras_a_birth_is_not_known),
		cmocka_unit_test(eras_that_are_not_there_are_no_ages),
		cmocka_unit_test(a_block_of_a_pool_has_room_for_ten_years),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
