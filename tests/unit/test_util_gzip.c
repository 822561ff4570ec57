/* SPDX-License-Identifier: Apache-2.0 */
/* links: util base */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "util/gzip.h"

static void check_reading(struct span packed, struct span plain)
{
	struct buffer out = BUFFER_INIT;
	struct error error = ERROR_INIT;

	assert_int_equal(gzip_read(&out, packed, plain.size, &error), 0);
	assert_true(span_equal(buffer_span(&out), plain));
	buffer_clear(&out);
	assert_int_equal(gzip_read(&out, span_of(packed.data, packed.size - 1), plain.size, &error),
			 -1);
	assert_string_equal(error.message, "the gzip data is cut off");
	buffer_clear(&out);
	if (plain.size) {
		assert_int_equal(gzip_read(&out, packed, plain.size - 1, &error), -1);
		assert_non_null(strstr(error.message, "when decompressed"));
	}
	buffer_release(&out);
}

static void check_round_trip(size_t size, enum gzip_level level)
{
	enum { GZIP_WINDOW = 15 + 16 };
	uint8_t *plain = malloc(size + 1), *again = malloc(size + 1);
	struct buffer packed = BUFFER_INIT;
	z_stream z = { 0 };
	uint32_t state = 1;

	assert_non_null(plain);
	assert_non_null(again);
	for (size_t i = 0; i < size; i++)
		plain[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
	buffer_text(&packed, "before");
	assert_true(gzip_append(&packed, span_of(plain, size), level));
	assert_memory_equal(packed.data, "before", 6);
	assert_int_equal(inflateInit2(&z, GZIP_WINDOW), Z_OK);
	z.next_in = packed.data + 6;
	z.avail_in = (uInt)(packed.size - 6);
	z.next_out = again;
	z.avail_out = (uInt)size + 1;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.total_out, size);
	assert_int_equal(z.avail_in, 0);
	assert_memory_equal(again, plain, size);
	inflateEnd(&z);
	check_reading(span_of(packed.data + 6, packed.size - 6), span_of(plain, size));
	buffer_release(&packed);
	free(plain);
	free(again);
}

static void what_was_compressed_is_what_comes_out(void **state)
{
	static const size_t sizes[] = { 0, 1, 1000, 16 * 1024, 16 * 1024 + 1, 1 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		check_round_trip(sizes[i], GZIP_FASTEST);
		check_round_trip(sizes[i], GZIP_USUAL);
	}
}

static void other_bytes_are_damaged_gzip(void **state)
{
	struct buffer out = BUFFER_INIT;
	struct error error = ERROR_INIT;

	(void)state;
	assert_int_equal(gzip_read(&out, span_of("\x1f\x8b\x08nonsense....", 15), 100, &error), -1);
	assert_string_equal(error.message, "the gzip data is damaged");
	buffer_release(&out);
}

static void read_all(struct buffer *packed, int expected, const char *text)
{
	struct buffer out = BUFFER_INIT;
	struct error error = ERROR_INIT;

	assert_int_equal(gzip_read(&out, buffer_span(packed), 100, &error), expected);
	if (expected == 0)
		assert_string_equal(buffer_string(&out), text);
	buffer_release(&out);
}

static void members_follow_one_another(void **state)
{
	struct buffer packed = BUFFER_INIT;

	(void)state;
	assert_true(gzip_append(&packed, span_of("", 0), GZIP_USUAL));
	assert_true(gzip_append(&packed, span_of("first ", 6), GZIP_USUAL));
	assert_true(gzip_append(&packed, span_of("second", 6), GZIP_USUAL));
	read_all(&packed, 0, "first second");
	packed.size--;
	read_all(&packed, -1, NULL);
	packed.size++;
	buffer_fill(&packed, '\0', 3);
	read_all(&packed, 0, "first second");
	buffer_text(&packed, "something else");
	read_all(&packed, -1, NULL);
	buffer_release(&packed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_compressed_is_what_comes_out),
		cmocka_unit_test(other_bytes_are_damaged_gzip),
		cmocka_unit_test(members_follow_one_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
