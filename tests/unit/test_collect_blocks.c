/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* The list of all live blocks: small, tiny and large ones in one order, and what is made of a map that no recorder writes. */
#include "collect/profile/blocks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "live_made.h"
#include "unit.h"

#define TOTAL (64ull << 30)
#define MIB (1ull << 20)

static struct made begin(void)
{
	struct made made;
	struct live_header *head = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(head != MAP_FAILED);
	assert_int_equal(live_header_init(head, TOTAL), 0);
	made_start(&made, head);
	for (int i = 0; i < LIVE_REGIONS; i++)
		head->opened[i] = head->region[i].bytes;
	head->granule_shift = 5;
	return made;
}

static void end(struct made *made)
{
	munmap(made->head, TOTAL);
}

static void *leaf_at(struct made *made, uint32_t number)
{
	return (char *)made_at(made, LIVE_LEAVES) + (uint64_t)(number - 1) * LIVE_LEAF_UNIT;
}

static struct live_area *area_0(struct made *made)
{
	if (made->head->top[0] == 0)
		made->head->top[0] = made_append(made, LIVE_AREAS, 1) + 1;
	return made_at(made, LIVE_AREAS);
}

static struct live_large *large_entry(struct made *made, uint64_t address)
{
	uint32_t *number = &area_0(made)->large[address >> LIVE_LARGE_SHIFT];

	if (*number == 0)
		*number = made_append(made, LIVE_LEAVES, 4) + 1;
	return (struct live_large *)leaf_at(made, *number) +
	       (address & ((1u << LIVE_LARGE_SHIFT) - 1)) / LIVE_PAGE;
}

static void put_tiny(struct made *made, uint64_t address, uint32_t counters, uint32_t size)
{
	uint32_t *number = &area_0(made)->tiny[address >> LIVE_TINY_TABLE_SHIFT];

	if (*number == 0)
		*number = made_append(made, LIVE_LEAVES, 1) + 1;
	uint32_t *page = (uint32_t *)leaf_at(made, *number) +
			 (address & ((1u << LIVE_TINY_TABLE_SHIFT) - 1)) / LIVE_PAGE;

	if (*page == 0)
		*page = made_append(made, LIVE_LEAVES, 1) * (LIVE_LEAF_UNIT / LIVE_PAGE) + 1;
	((uint64_t *)(void *)((char *)made_at(made, LIVE_LEAVES) +
			      (uint64_t)(*page - 1) * LIVE_PAGE))[address % LIVE_PAGE / 8] =
		live_small_pack(counters, size, 7, live_small_place_of(address));
}

static void read_all(struct made *made, struct live_blocks *ret)
{
	struct error error;

	assert_int_equal(live_blocks_read(made->head, TOTAL, 1000, ret, &error), 0);
	for (size_t i = 1; i < ret->list.count; i++)
		assert_true(ret->list.at[i - 1].address + ret->list.at[i - 1].size_bytes <=
			    ret->list.at[i].address);
}

static void blocks_of_all_sizes_are_in_one_order(void **state)
{
	struct made made = begin();
	uint32_t site = made_site(&made, 1, LIVE_KIND_HEAP);
	uint32_t counters = made_counts(&made, site, 0, 8, 1, 0);
	struct live_blocks blocks;

	(void)state;
	/* A page with all three: tiny blocks on both sides of a small one, and the start of a large one. */
	put_tiny(&made, 5 * MIB + 8, counters, 8);
	made_small_block(&made, 5 * MIB + 48, counters, 100, 400);
	put_tiny(&made, 5 * MIB + 1000, counters, 24);
	*large_entry(&made, 5 * MIB) = (struct live_large){
		.address = 5 * MIB + 152, .size_bytes = 800, .birth_ms = 10, .counters = counters
	};
	made_small_block(&made, 5 * MIB + 4096, counters, 0, LIVE_BIRTH_UNKNOWN);
	made_small_block(&made, 900 * MIB + 24, counters, 4000, (UINT64_C(3) << 25) + 5);
	read_all(&made, &blocks);
	const struct live_block expected[] = {
		{ 5 * MIB + 8, 8, site, 993 },
		{ 5 * MIB + 48, 100, site, 600 },
		{ 5 * MIB + 152, 800, site, 990 },
		{ 5 * MIB + 1000, 24, site, 993 },
		{ 5 * MIB + 4096, 0, site, BLOCK_AGE_UNKNOWN },
		{ 900 * MIB + 24, 4000, site, 0 },
	};

	assert_int_equal(blocks.list.count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_int_equal(blocks.list.at[i].address, expected[i].address);
		assert_int_equal(blocks.list.at[i].size_bytes, expected[i].size_bytes);
		assert_int_equal(blocks.list.at[i].site, expected[i].site);
		assert_int_equal(blocks.list.at[i].age_ms, expected[i].age_ms);
		assert_int_equal(live_blocks_before(&blocks, expected[i].address), i);
		assert_int_equal(live_blocks_before(&blocks, expected[i].address + 1), i + 1);
	}
	assert_int_equal(blocks.dropped + blocks.cut, 0);
	live_blocks_release(&blocks);
	end(&made);
}

/* A later era is the clock of a process that is older than nine hours. */
static void ages_are_right_after_nine_hours(void **state)
{
	struct made made = begin();
	uint32_t counters = made_counts(&made, made_site(&made, 1, LIVE_KIND_HEAP), 0, 8, 1, 0);
	const uint64_t born = (UINT64_C(3) << 25) + 5;
	struct live_blocks blocks;

	(void)state;
	made_small_block(&made, 5 * MIB, counters, 100, born);
	assert_int_equal(live_blocks_read(made.head, TOTAL, born + 12345, &blocks, NULL), 0);
	assert_int_equal(blocks.list.at[0].age_ms, 12345);
	live_blocks_release(&blocks);
	assert_int_equal(live_blocks_read(made.head, TOTAL, UINT64_MAX, &blocks, NULL), 0);
	assert_int_equal(blocks.list.at[0].age_ms, BLOCK_AGE_UNKNOWN - 1);
	live_blocks_release(&blocks);
	end(&made);
}

static void entries_that_no_recorder_writes_are_dropped_or_cut(void **state)
{
	struct made made = begin();
	uint32_t heap = made_counts(&made, made_site(&made, 1, LIVE_KIND_HEAP), 0, 8, 1, 0);
	uint32_t mapped = made_counts(&made, made_site(&made, 1, LIVE_KIND_MMAP), 0, 8, 1, 0);
	struct live_blocks blocks;

	(void)state;
	made_small_block(&made, 5 * MIB, 99, 100, 1);	       /* no such counters */
	made_small_block(&made, 5 * MIB + 64, mapped, 100, 1); /* not of the heap */
	*large_entry(&made, 6 * MIB) = (struct live_large){ .address = 7 * MIB, .counters = heap };
	made_small_block(&made, 8 * MIB, heap, 3000, 1);
	made_small_block(&made, 8 * MIB + 1024, heap, 10, 1);
	*large_entry(&made, 9 * MIB) = (struct live_large){ .address = 9 * MIB,
							    .size_bytes = UINT64_MAX,
							    .counters = heap };
	made_small_block(&made, 9 * MIB, heap, 10, 1); /* two at one address */
	*large_entry(&made, 10 * MIB) = (struct live_large){ .address = 10 * MIB + 1,
							     .size_bytes = UINT64_MAX,
							     .counters = heap };
	read_all(&made, &blocks);
	assert_int_equal(blocks.list.count, 4);
	assert_int_equal(blocks.list.at[0].size_bytes, 1024);
	assert_int_equal(blocks.list.at[3].address, 10 * MIB + 1);
	assert_true(blocks.list.at[3].size_bytes < UINT64_C(1) << 48);
	assert_int_equal(blocks.dropped, 4);
	assert_int_equal(blocks.cut, 1);
	live_blocks_release(&blocks);
	made.head->granule_shift = 13;
	assert_int_equal(live_blocks_read(made.head, TOTAL, 1000, &blocks, NULL), -1);
	live_blocks_release(&blocks);
	end(&made);
}

/* One full leaf for all of the address space, as a small one, a large one, and a table of tiny ones that is a leaf of its own. */
static void a_leaf_is_read_once(void **state)
{
	enum { AREAS = 2000 };
	struct made made = begin();
	uint32_t heap = made_counts(&made, made_site(&made, 1, LIVE_KIND_HEAP), 0, 8, 1, 0);
	struct live_area *areas = made_at(&made, LIVE_AREAS);
	struct live_blocks blocks;

	(void)state;
	made_append(&made, LIVE_AREAS, AREAS);
	made_append(&made, LIVE_LEAVES, 5);
	for (uint32_t i = 0; i < AREAS; i++) {
		made.head->top[i] = made.head->top[AREAS + i] = i + 1;
		for (size_t k = 0; k < 100; k++)
			areas[i].small[k] = 1;
		areas[i].tiny[0] = areas[i].large[0] = 2;
	}
	uint64_t *words = made_at(&made, LIVE_LEAVES);

	for (size_t i = 0; i < LIVE_LEAF_UNIT / sizeof *words; i++)
		words[i] = live_small_pack(heap, 8, 1, 0);
	for (size_t i = 0; i < LIVE_LEAF_UNIT / sizeof(uint32_t); i++)
		((uint32_t *)leaf_at(&made, 2))[i] = 1;
	read_all(&made, &blocks);
	assert_in_range(blocks.list.count, LIVE_LEAF_UNIT / sizeof *words,
			LIVE_LEAF_UNIT / sizeof *words + LIVE_PAGE / 8);
	live_blocks_release(&blocks);
	end(&made);
}

static bool has(const struct live_blocks *blocks, const struct live_block *b)
{
	size_t at = live_blocks_before(blocks, b->address);

	return at < blocks->list.count &&
	       memcmp(&blocks->list.at[at], b, sizeof *b) == 0; /* it has no padding */
}

/* Blocks are freed, replaced by others at the same address, and new; some reach into those that are new. */
static void what_is_left_is_in_both_lists(void **state)
{
	enum { PLACES = 3000, STEP = 64, ROUNDS = 20, NO_COUNTERS = 99 };
	struct live_blocks first, later, left;
	uint64_t changed, both;

	(void)state;
	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct made made = begin();
		uint32_t counters =
			made_counts(&made, made_site(&made, 1, LIVE_KIND_HEAP), 0, 8, 1, 0);
		unsigned seed = round;

		for (uint64_t i = 0; i < PLACES; i++)
			if (rand_r(&seed) % 2)
				made_small_block(&made, 5 * MIB + i * STEP, counters,
						 (uint32_t)rand_r(&seed) % 200, 400);
		read_all(&made, &first);
		read_all(&made, &left);
		for (uint64_t i = 0; i < PLACES; i++)
			if (rand_r(&seed) % 10 < (int)(round % 5))
				made_small_block(&made, 5 * MIB + i * STEP,
						 rand_r(&seed) % 3 ? counters : NO_COUNTERS,
						 (uint32_t)rand_r(&seed) % 200, 300);
		read_all(&made, &later);
		assert_int_equal(
			live_blocks_leave_same(&left, made.head, TOTAL, 1000, &changed, NULL), 0);
		both = 0;
		for (size_t i = 0; i < first.list.count; i++) {
			both += has(&later, &first.list.at[i]);
			assert_true(has(&left, &first.list.at[i]) ==
				    has(&later, &first.list.at[i]));
		}
		assert_int_equal(left.list.count, both);
		assert_int_equal(changed, first.list.count + later.list.count - 2 * both);
		assert_int_equal(left.site_count, first.site_count);
		live_blocks_release(&first);
		live_blocks_release(&later);
		live_blocks_release(&left);
		end(&made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_all_sizes_are_in_one_order),
		cmocka_unit_test(ages_are_right_after_nine_hours),
		cmocka_unit_test(entries_that_no_recorder_writes_are_dropped_or_cut),
		cmocka_unit_test(a_leaf_is_read_once),
		cmocka_unit_test(what_is_left_is_in_both_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
