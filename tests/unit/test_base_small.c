/* links: base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/span.h"

#include <string.h>

#include "unit.h"

static void sums_and_products_that_do_not_fit_are_told(void **state)
{
	uint64_t wide = 0;
	uint32_t narrow = 0;

	(void)state;
	assert_true(checked_add(UINT64_MAX - 1, 1u, &wide));
	assert_true(wide == UINT64_MAX);
	assert_false(checked_add(UINT64_MAX, 1u, &wide));
	assert_true(checked_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &wide));
	assert_false(checked_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &wide));
	/* The type of the result decides, not that of the arguments. */
	assert_false(checked_add(UINT64_C(1), UINT64_C(0xffffffff), &narrow));
	assert_true(checked_add(UINT64_C(0), UINT64_C(0xffffffff), &narrow));
}

static void alignment_rounds_up_and_refuses_nonsense(void **state)
{
	uint64_t value = 99;

	(void)state;
	assert_true(checked_align_up(0, 16, &value) && value == 0);
	assert_true(checked_align_up(1, 16, &value) && value == 16);
	assert_true(checked_align_up(16, 16, &value) && value == 16);
	assert_false(checked_align_up(UINT64_MAX, 16, &value));
	assert_false(checked_align_up(1, 0, &value));
	assert_false(checked_align_up(1, 24, &value));
	assert_true(value == 16);
}

static void a_range_is_inside_only_as_a_whole(void **state)
{
	(void)state;
	assert_true(range_within(0, 0, 0));
	assert_true(range_within(3, 7, 10));
	assert_true(range_within(10, 0, 10));
	assert_false(range_within(3, 8, 10));
	assert_false(range_within(11, 0, 10));
	assert_false(range_within(UINT64_MAX, 2, 10));
	assert_false(range_within(2, UINT64_MAX, 10));
}

static void saturation_stops_at_the_ends(void **state)
{
	(void)state;
	assert_true(saturating_add(UINT64_MAX - 1, 5) == UINT64_MAX);
	assert_true(saturating_add(2, 3) == 5);
	assert_true(saturating_sub(2, 3) == 0);
	assert_true(saturating_sub(3, 2) == 1);
}

static void spans_are_cut_and_compared(void **state)
{
	struct span whole = span_of("heapgauge", 9), part = { 0 };

	(void)state;
	assert_true(span_part(whole, 4, 5, &part));
	assert_true(span_equal(part, span_of("gauge", 5)));
	assert_false(span_equal(part, span_of("gaugE", 5)));
	assert_false(span_equal(part, span_of("gaug", 4)));
	assert_false(span_part(whole, 4, 6, &part));
	assert_false(span_part(whole, SIZE_MAX, 2, &part));
	assert_true(span_part(whole, 9, 0, &part));
	assert_true(span_equal(part, span_of(NULL, 0)));
}

static void one_changed_bit_changes_half_of_the_hash(void **state)
{
	uint64_t seed = 5, flips = 0;
	enum { ROUNDS = 2000 };

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t value = unit_random(&seed);

		for (unsigned bit = 0; bit < 64; bit++)
			flips += (uint64_t)__builtin_popcountll(
				hash_mix(value) ^ hash_mix(value ^ (UINT64_C(1) << bit)));
	}
	/* 32 of 64 bits on average, within one percent. */
	assert_in_range(flips, UINT64_C(64) * ROUNDS * 32 * 99 / 100,
			UINT64_C(64) * ROUNDS * 32 * 101 / 100);
}

static void hashes_depend_on_order_length_and_seed(void **state)
{
	(void)state;
	assert_true(hash_combine(hash_combine(0, 1), 2) != hash_combine(hash_combine(0, 2), 1));
	assert_true(hash_bytes("a\0", 2, 0) != hash_bytes("a", 1, 0));
	assert_true(hash_bytes("12345678", 8, 0) != hash_bytes("12345678\0", 9, 0));
	assert_true(hash_bytes("abc", 3, 0) != hash_bytes("abc", 3, 1));
	assert_true(hash_bytes("123456789", 9, 7) == hash_bytes("123456789", 9, 7));
}

static void hashes_of_counted_strings_do_not_collide(void **state)
{
	/* 100,000 hashes of 64 bits collide with a chance of 3 in 10^10. */
	enum { COUNT = 100000, SLOTS = 1 << 18 };
	static uint64_t seen[SLOTS];

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t hash = hash_bytes(&i, sizeof i, 0);
		size_t slot = hash % SLOTS;

		assert_true(hash != 0);
		for (; seen[slot]; slot = (slot + 1) % SLOTS)
			assert_true(seen[slot] != hash);
		seen[slot] = hash;
	}
}

static void zeroed_memory_holds_no_id(void **state)
{
	struct {
		site_id site;
		thread_id thread;
	} zeroed;

	(void)state;
	memset(&zeroed, 0, sizeof zeroed);
	assert_true(site_id_is_none(zeroed.site));
	assert_true(thread_id_is_none(zeroed.thread));
	assert_false(site_id_is_none((site_id){ 1 }));
	assert_true(site_id_equal((site_id){ 7 }, (site_id){ 7 }));
	assert_false(site_id_equal((site_id){ 7 }, (site_id){ 8 }));
}

static int calls;

static int counted(int value)
{
	calls++;
	return value;
}

static void min_and_max_evaluate_once(void **state)
{
	int numbers[3] = { 0 };

	(void)state;
	assert_int_equal(MIN(counted(3), counted(2)), 2);
	assert_int_equal(MAX(counted(3), counted(2)), 3);
	assert_int_equal(calls, 4);
	assert_int_equal(ARRAY_SIZE(numbers), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_and_products_that_do_not_fit_are_told),
		cmocka_unit_test(alignment_rounds_up_and_refuses_nonsense),
		cmocka_unit_test(a_range_is_inside_only_as_a_whole),
		cmocka_unit_test(saturation_stops_at_the_ends),
		cmocka_unit_test(spans_are_cut_and_compared),
		cmocka_unit_test(one_changed_bit_changes_half_of_the_hash),
		cmocka_unit_test(hashes_depend_on_order_length_and_seed),
		cmocka_unit_test(hashes_of_counted_strings_do_not_collide),
		cmocka_unit_test(zeroed_memory_holds_no_id),
		cmocka_unit_test(min_and_max_evaluate_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
