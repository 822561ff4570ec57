/* links: base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"
#include "base/varint.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

static void numbers_are_little_endian(void **state)
{
	static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	struct cursor c = cursor_over(span_of(bytes, sizeof bytes));

	(void)state;
	assert_int_equal(cursor_u8(&c), 0x01);
	assert_int_equal(cursor_u16(&c), 0x0302);
	assert_int_equal(cursor_u32(&c), 0x07060504);
	assert_true(cursor_u64(&c) == UINT64_C(0x0f0e0d0c0b0a0908));
	assert_false(c.failed);
	assert_int_equal(cursor_left(&c), 0);
	assert_int_equal(cursor_offset(&c), sizeof bytes);
}

static void a_failure_stays(void **state)
{
	static const uint8_t bytes[] = { 1, 2, 3 };
	struct cursor c = cursor_over(span_of(bytes, sizeof bytes));

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_u32(&c), 0);
	assert_true(c.failed);
	assert_int_equal(cursor_offset(&c), 1);
	assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(cursor_varint(&c), 0);
	assert_int_equal(cursor_bytes(&c, 0).size, 0);
	cursor_seek(&c, 0);
	assert_true(c.failed);
	assert_int_equal(cursor_offset(&c), 1);
}

static void nothing_can_be_read_from_nothing(void **state)
{
	struct cursor c = cursor_over(span_of(NULL, 0));

	(void)state;
	assert_int_equal(cursor_bytes(&c, 0).size, 0);
	assert_false(c.failed);
	assert_int_equal(cursor_u8(&c), 0);
	assert_true(c.failed);
}

static void a_length_larger_than_the_rest_is_refused(void **state)
{
	/* Says 2^64 - 1 bytes follow: the sum with any offset would wrap. */
	static const uint8_t bytes[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					 0xff, 0xff, 0xff, 0x01, 'x' };
	struct cursor c = cursor_over(span_of(bytes, sizeof bytes));

	(void)state;
	assert_int_equal(cursor_counted(&c).size, 0);
	assert_true(c.failed);
	assert_int_equal(cursor_offset(&c), 0);
}

static void a_failed_copy_leaves_zeros(void **state)
{
	static const uint8_t bytes[] = { 1, 2 };
	struct cursor c = cursor_over(span_of(bytes, sizeof bytes));
	uint8_t out[4] = { 9, 9, 9, 9 };
	static const uint8_t zeros[4];

	(void)state;
	assert_false(cursor_copy(&c, out, sizeof out));
	assert_memory_equal(out, zeros, sizeof out);
}

static void seek_and_skip_stay_inside(void **state)
{
	static const uint8_t bytes[] = { 10, 11, 12, 13 };
	struct cursor c = cursor_over(span_of(bytes, sizeof bytes));

	(void)state;
	cursor_seek(&c, 4);
	assert_false(c.failed);
	cursor_seek(&c, 1);
	cursor_skip(&c, 2);
	assert_int_equal(cursor_u8(&c), 13);
	cursor_seek(&c, 5);
	assert_true(c.failed);
}

/* One random record, written and read with the same choices. */
enum { FIELDS = 20, RECORD_BYTES = 4096 };

static size_t write_record(uint64_t seed, uint8_t out[static RECORD_BYTES])
{
	static const size_t widths[] = { 1, 2, 4, 8 };
	size_t at = 0;

	for (int i = 0; i < FIELDS; i++) {
		uint64_t kind = unit_random(&seed) % 7, value = unit_random_length(&seed);

		if (kind < 4) {
			memcpy(out + at, &value, widths[kind]);
			at += widths[kind];
		} else if (kind < 6) {
			at += varint_put(out + at, RECORD_BYTES - at,
					 kind == 4 ? value : zigzag_encode((int64_t)value));
		} else {
			at += varint_put(out + at, RECORD_BYTES - at, value % 9);
			memcpy(out + at, &value, value % 9);
			at += value % 9;
		}
	}
	return at;
}

/* Whether all fields could be read; each that could must have the value that was written. */
static bool read_record(uint64_t seed, struct span bytes)
{
	struct cursor c = cursor_over(bytes);

	for (int i = 0; i < FIELDS; i++) {
		uint64_t kind = unit_random(&seed) % 7, value = unit_random_length(&seed), got = 0;
		struct span part = { 0 };

		switch (kind) {
		case 0:
			value = (uint8_t)value;
			got = cursor_u8(&c);
			break;
		case 1:
			value = (uint16_t)value;
			got = cursor_u16(&c);
			break;
		case 2:
			value = (uint32_t)value;
			got = cursor_u32(&c);
			break;
		case 3:
			got = cursor_u64(&c);
			break;
		case 4:
			got = cursor_varint(&c);
			break;
		case 5:
			got = (uint64_t)cursor_zigzag(&c);
			break;
		default:
			part = cursor_counted(&c);
			assert_true(c.failed || span_equal(part, span_of(&value, value % 9)));
			continue;
		}
		assert_true(c.failed ? got == 0 : got == value);
	}
	return !c.failed && cursor_left(&c) == 0;
}

static void random_records_round_trip(void **state)
{
	uint64_t seed = 42;
	uint8_t bytes[RECORD_BYTES];

	(void)state;
	for (int i = 0; i < 5000; i++) {
		uint64_t record = unit_random(&seed);
		size_t size = write_record(record, bytes);

		assert_true(read_record(record, span_of(bytes, size)));
	}
}

static void a_record_cut_at_any_byte_fails_and_reads_nothing_beyond(void **state)
{
	uint64_t seed = 43;
	uint8_t bytes[RECORD_BYTES];

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t record = unit_random(&seed);
		size_t size = write_record(record, bytes);

		for (size_t cut = 0; cut < size; cut++) {
			/* A block of its own, so that a sanitizer sees a read past the cut. */
			uint8_t *copy = malloc(cut ? cut : 1);

			memcpy(copy, bytes, cut);
			assert_false(read_record(record, span_of(copy, cut)));
			free(copy);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_little_endian),
		cmocka_unit_test(a_failure_stays),
		cmocka_unit_test(nothing_can_be_read_from_nothing),
		cmocka_unit_test(a_length_larger_than_the_rest_is_refused),
		cmocka_unit_test(a_failed_copy_leaves_zeros),
		cmocka_unit_test(seek_and_skip_stay_inside),
		cmocka_unit_test(random_records_round_trip),
		cmocka_unit_test(a_record_cut_at_any_byte_fails_and_reads_nothing_beyond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
