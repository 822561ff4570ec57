/* links: base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/varint.h"

#include "unit.h"

static void every_length_round_trips(void **state)
{
	uint8_t bytes[VARINT_MAX_BYTES];

	(void)state;
	for (unsigned bit = 0; bit <= 64; bit++) {
		uint64_t edge = bit == 64 ? 0 : UINT64_C(1) << bit;

		for (int delta = -1; delta <= 1; delta++) {
			uint64_t value = edge + (uint64_t)delta, back = ~value;
			size_t size = varint_put(bytes, sizeof bytes, value);

			assert_in_range(size, 1, VARINT_MAX_BYTES);
			assert_int_equal(varint_get(bytes, size, &back), size);
			assert_true(back == value);
		}
	}
}

static void random_numbers_round_trip(void **state)
{
	uint64_t seed = 0x1234567;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint8_t bytes[VARINT_MAX_BYTES];
		uint64_t value = unit_random_length(&seed), back = ~value;
		size_t size = varint_put(bytes, sizeof bytes, value);

		assert_int_equal(varint_get(bytes, size, &back), size);
		assert_true(back == value);
		assert_true(zigzag_decode(zigzag_encode((int64_t)value)) == (int64_t)value);
	}
}

static void a_known_number_has_its_known_bytes(void **state)
{
	static const uint8_t expected[] = { 0xe5, 0x8e, 0x26 };
	uint8_t bytes[VARINT_MAX_BYTES];

	(void)state;
	assert_int_equal(varint_put(bytes, sizeof bytes, 624485), sizeof expected);
	assert_memory_equal(bytes, expected, sizeof expected);
}

static void too_little_room_writes_nothing(void **state)
{
	uint8_t bytes[3] = { 0xaa, 0xaa, 0xaa };

	(void)state;
	assert_int_equal(varint_put(bytes, 2, 624485), 0);
	assert_int_equal(bytes[0], 0xaa);
	assert_int_equal(bytes[1], 0xaa);
	assert_int_equal(varint_put(bytes, 0, 0), 0);
}

static void a_cut_number_is_refused_at_every_length(void **state)
{
	uint8_t bytes[VARINT_MAX_BYTES];
	size_t size = varint_put(bytes, sizeof bytes, UINT64_MAX);
	uint64_t value = 7;

	(void)state;
	assert_int_equal(size, VARINT_MAX_BYTES);
	for (size_t cut = 0; cut < size; cut++)
		assert_int_equal(varint_get(bytes, cut, &value), 0);
	assert_true(value == 7);
}

static void more_than_64_bits_are_refused(void **state)
{
	uint8_t bytes[11] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 };
	uint64_t value = 7;

	(void)state;
	assert_int_equal(varint_get(bytes, sizeof bytes, &value), 0);
	bytes[9] = 0x81; /* bit 63, but says that an eleventh byte follows */
	assert_int_equal(varint_get(bytes, sizeof bytes, &value), 0);
	bytes[9] = 0x01;
	assert_int_equal(varint_get(bytes, sizeof bytes, &value), 10);
	assert_true(value == UINT64_MAX);
}

static void a_padded_spelling_is_read(void **state)
{
	static const uint8_t padded[] = { 0x85, 0x80, 0x00 };
	uint64_t value = 0;

	(void)state;
	assert_int_equal(varint_get(padded, sizeof padded, &value), 3);
	assert_int_equal(value, 5);
}

static void zigzag_keeps_small_numbers_small(void **state)
{
	(void)state;
	assert_int_equal(zigzag_encode(0), 0);
	assert_int_equal(zigzag_encode(-1), 1);
	assert_int_equal(zigzag_encode(1), 2);
	assert_int_equal(zigzag_encode(-2), 3);
	assert_true(zigzag_encode(INT64_MIN) == UINT64_MAX);
	assert_true(zigzag_decode(UINT64_MAX) == INT64_MIN);
	assert_true(zigzag_decode(UINT64_MAX - 1) == INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_round_trips),
		cmocka_unit_test(random_numbers_round_trip),
		cmocka_unit_test(a_known_number_has_its_known_bytes),
		cmocka_unit_test(too_little_room_writes_nothing),
		cmocka_unit_test(a_cut_number_is_refused_at_every_length),
		cmocka_unit_test(more_than_64_bits_are_refused),
		cmocka_unit_test(a_padded_spelling_is_read),
		cmocka_unit_test(zigzag_keeps_small_numbers_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
