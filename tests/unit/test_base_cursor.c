/* links: base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"
#include "base/writer.h"

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

static void a_32_bit_varint_must_fit(void **state)
{
	uint8_t bytes[20];
	struct writer w = writer_over(bytes, sizeof bytes);
	struct cursor c;

	(void)state;
	writer_varint(&w, UINT32_MAX);
	writer_varint(&w, UINT64_C(1) + UINT32_MAX);
	c = cursor_over(writer_done(&w));
	assert_true(cursor_varint32(&c) == UINT32_MAX);
	assert_false(c.failed);
	assert_int_equal(cursor_varint32(&c), 0);
	assert_true(c.failed);
	assert_int_equal(cursor_offset(&c), 5);
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

static void a_full_writer_writes_no_more(void **state)
{
	uint8_t bytes[8] = { 0 };
	struct writer w = writer_over(bytes, 5);

	(void)state;
	writer_u32(&w, 0x04030201);
	writer_u16(&w, 0x0605);
	assert_true(w.full);
	writer_u8(&w, 5);
	assert_int_equal(writer_done(&w).size, 4);
	assert_int_equal(bytes[4], 0);
	w = writer_over(bytes, 3);
	writer_counted(&w, span_of("abc", 3));
	assert_true(w.full);
	assert_int_equal(writer_done(&w).size, 0);
}

/* One random record, written and read with the same choices. */
enum { FIELDS = 20, RECORD_BYTES = 4096 };

static size_t write_record(uint64_t seed, uint8_t *out, size_t room)
{
	struct writer w = writer_over(out, room);

	for (int i = 0; i < FIELDS; i++) {
		uint64_t kind = unit_random(&seed) % 7, value = unit_random_length(&seed);

		switch (kind) {
		case 0:
			writer_u8(&w, (uint8_t)value);
			break;
		case 1:
			writer_u16(&w, (uint16_t)value);
			break;
		case 2:
			writer_u32(&w, (uint32_t)value);
			break;
		case 3:
			writer_u64(&w, value);
			break;
		case 4:
			writer_varint(&w, value);
			break;
		case 5:
			writer_zigzag(&w, (int64_t)value);
			break;
		default:
			writer_counted(&w, span_of(&value, value % 9));
			break;
		}
	}
	return w.full ? 0 : writer_done(&w).size;
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
		size_t size = write_record(record, bytes, sizeof bytes);

		assert_int_not_equal(size, 0);
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
		size_t size = write_record(record, bytes, sizeof bytes);

		for (size_t cut = 0; cut < size; cut++) {
			/* A block of its own, so that a sanitizer sees a read past the cut. */
			uint8_t *copy = malloc(cut ? cut : 1);

			memcpy(copy, bytes, cut);
			assert_false(read_record(record, span_of(copy, cut)));
			free(copy);
			assert_int_equal(write_record(record, bytes, cut), 0);
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
		cmocka_unit_test(a_32_bit_varint_must_fit),
		cmocka_unit_test(seek_and_skip_stay_inside),
		cmocka_unit_test(a_full_writer_writes_no_more),
		cmocka_unit_test(random_records_round_trip),
		cmocka_unit_test(a_record_cut_at_any_byte_fails_and_reads_nothing_beyond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
