/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Finds the block of an address as a search through all blocks does, however blocks of different sizes lie on pages. */
#include "unit.h"

#include "base/compiler.h"
#include "collect/image/block_index.h"
#include "util/vector.h"

enum { BLOCKS = 20000 };

static uint64_t seed = 1;

static uint64_t below(uint64_t limit)
{
	return unit_random(&seed) % limit;
}

static void add(struct live_blocks *blocks, uint64_t address, uint64_t bytes)
{
	assert_true(vector_push(&blocks->list,
				((struct live_block){ .address = address, .size_bytes = bytes })));
}

static uint32_t expected(const struct live_blocks *blocks, uint64_t address)
{
	size_t i = live_blocks_before(blocks, address + 1);

	if (i == 0 || address >= block_end(&blocks->list.at[i - 1]))
		return GRAPH_NONE;
	return (uint32_t)(i - 1) | (address == blocks->list.at[i - 1].address ? 0 : GRAPH_INTERIOR);
}

static void expect_all_found(struct live_blocks *blocks)
{
	struct block_index index;

	assert_true(block_index_make(blocks, &index));
	for (size_t i = 0; i < blocks->list.count; i++) {
		const struct live_block *b = &blocks->list.at[i];
		const uint64_t tried[] = { b->address - 1,   b->address,
					   b->address + 1,   b->address + below(b->size_bytes + 1),
					   block_end(b) - 1, block_end(b) };

		for (size_t k = 0; k < ARRAY_SIZE(tried); k++)
			assert_int_equal(block_index_find(&index, tried[k]),
					 expected(blocks, tried[k]));
	}
	block_index_release(&index);
	live_blocks_release(blocks);
}

/* As a program does that allocates a buffer and its description in turns: the small block is on the last page of the large one. */
static void small_blocks_behind_large_ones_are_found(void **state)
{
	struct live_blocks blocks = { 0 };
	uint64_t at = 0x10000010;

	(void)state;
	for (int i = 0; i < BLOCKS; i++) {
		add(&blocks, at, 70000);
		add(&blocks, at + 70016, 100);
		at += 70016 + 112;
	}
	expect_all_found(&blocks);
}

static void blocks_of_random_sizes_are_found(void **state)
{
	static const uint64_t largest[] = { 16, 200, 5000, 65535, 65536, 65537, 300000 };

	(void)state;
	for (int round = 0; round < 20; round++) {
		struct live_blocks blocks = { 0 };
		uint64_t at = 0x10000010;

		for (int i = 0; i < BLOCKS / 10; i++) {
			uint64_t bytes = below(largest[below(ARRAY_SIZE(largest))] + 1);

			add(&blocks, at, bytes);
			at = (at + MAX(bytes, UINT64_C(1)) + 15) / 16 * 16 +
			     (below(10) ? 0 : 16 * below(2000));
		}
		expect_all_found(&blocks);
	}
}

static void without_blocks_nothing_is_found(void **state)
{
	struct live_blocks blocks = { 0 };
	struct block_index index;

	(void)state;
	assert_true(block_index_make(&blocks, &index));
	assert_int_equal(block_index_find(&index, 0), GRAPH_NONE);
	assert_int_equal(block_index_find(&index, 4096), GRAPH_NONE);
	block_index_release(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_blocks_behind_large_ones_are_found),
		cmocka_unit_test(blocks_of_random_sizes_are_found),
		cmocka_unit_test(without_blocks_nothing_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
