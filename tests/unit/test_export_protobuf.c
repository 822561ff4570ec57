/* SPDX-License-Identifier: Apache-2.0 */
/* links: export */
/* The wire format, byte by byte as protobuf's documentation has it. Real decoders read whole files in tests/e2e/export/. */
#include "unit.h"

#include <string.h>

#include "export/protobuf.h"

#define ASSERT_BYTES(b, ...)                                                                       \
	do {                                                                                       \
		static const uint8_t expected_[] = { __VA_ARGS__ };                                \
		assert_int_equal((b).size, sizeof expected_);                                      \
		assert_memory_equal((b).data, expected_, sizeof expected_);                        \
		buffer_clear(&(b));                                                                \
	} while (0)

static void numbers_are_varints_and_zero_is_omitted(void **state)
{
	struct buffer b = BUFFER_INIT;

	(void)state;
	protobuf_number(&b, 1, 150);
	ASSERT_BYTES(b, 0x08, 0x96, 0x01);
	protobuf_number(&b, 16, 1);
	ASSERT_BYTES(b, 0x80, 0x01, 0x01);
	protobuf_number(&b, 2, (uint64_t)-2);
	ASSERT_BYTES(b, 0x10, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
	protobuf_fixed64(&b, 3, 0x0102030405060708);
	ASSERT_BYTES(b, 0x19, 8, 7, 6, 5, 4, 3, 2, 1);
	protobuf_number(&b, 1, 0);
	protobuf_fixed64(&b, 1, 0);
	assert_int_equal(b.size, 0);
	buffer_release(&b);
}

static void texts_are_always_utf8(void **state)
{
	struct buffer b = BUFFER_INIT;

	(void)state;
	protobuf_text(&b, 2, "testing");
	ASSERT_BYTES(b, 0x12, 7, 't', 'e', 's', 't', 'i', 'n', 'g');
	protobuf_text(&b, 2, "");
	ASSERT_BYTES(b, 0x12, 0);
	protobuf_text(&b, 2, "\xff\n");
	ASSERT_BYTES(b, 0x12, 4, 0xef, 0xbf, 0xbd, '?');
	buffer_release(&b);
}

/* Where the length of a message, or of one around it, needs one more byte. */
static void nested_messages_have_lengths_of_any_size(void **state)
{
	static const size_t sizes[] = { 0,   1,	  123,	 124,	125,   126,
					127, 128, 16380, 16383, 16384, 1 << 21 };

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct buffer once = BUFFER_INIT, nested = BUFFER_INIT, b = BUFFER_INIT;
		struct buffer fill = BUFFER_INIT;

		buffer_fill(&fill, 'x', sizes[i]);
		protobuf_bytes(&once, 3, buffer_span(&fill));
		protobuf_bytes(&nested, 1, buffer_span(&once));
		size_t outer = protobuf_begin(&b, 1), inner = protobuf_begin(&b, 3);

		buffer_append(&b, fill.data, fill.size);
		protobuf_end(&b, inner);
		protobuf_end(&b, outer);
		assert_int_equal(b.size, nested.size);
		assert_memory_equal(b.data, nested.data, b.size);
		buffer_release(&fill);
		buffer_release(&once);
		buffer_release(&nested);
		buffer_release(&b);
	}
}

static void arrays_are_packed(void **state)
{
	struct buffer b = BUFFER_INIT;
	size_t begin = protobuf_begin(&b, 6);

	(void)state;
	protobuf_element(&b, 3);
	protobuf_element(&b, 0);
	protobuf_element(&b, 86942);
	protobuf_end(&b, begin);
	ASSERT_BYTES(b, 0x32, 5, 3, 0, 0x9e, 0xa7, 0x05);
	buffer_release(&b);
}

static void a_failed_buffer_stays_failed(void **state)
{
	struct buffer b = BUFFER_INIT;
	size_t begin = protobuf_begin(&b, 1);

	(void)state;
	b.failed = true;
	size_t lost = protobuf_begin(&b, 1);

	protobuf_number(&b, 1, 1);
	protobuf_end(&b, lost);
	protobuf_end(&b, begin);
	assert_true(b.failed);
	buffer_release(&b);
}

static void equal_items_of_a_table_are_one(void **state)
{
	struct protobuf_table table;

	(void)state;
	protobuf_table_init(&table, 5);
	assert_int_equal(protobuf_table_text(&table, NULL), 0);
	assert_int_equal(protobuf_table_text(&table, ""), 0);
	assert_int_equal(protobuf_table_text(&table, "a"), 1);
	assert_int_equal(protobuf_table_text(&table, "b\xff"), 2);
	assert_int_equal(protobuf_table_text(&table, "a"), 1);
	assert_int_equal(protobuf_table_text(&table, "b\xfe"), 2);
	assert_int_equal(table.count, 3);
	ASSERT_BYTES(table.bytes, 0x2a, 0, 0x2a, 1, 'a', 0x2a, 4, 'b', 0xef, 0xbf, 0xbd);
	protobuf_table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_varints_and_zero_is_omitted),
		cmocka_unit_test(texts_are_always_utf8),
		cmocka_unit_test(nested_messages_have_lengths_of_any_size),
		cmocka_unit_test(arrays_are_packed),
		cmocka_unit_test(a_failed_buffer_stays_failed),
		cmocka_unit_test(equal_items_of_a_table_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
