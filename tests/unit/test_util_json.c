/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "util/text/json.h"
#include "util/text/utf8.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "unit.h"

static void structure_has_its_commas(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	(void)state;
	json_object(&j);
	json_field_u64(&j, "calls", 12);
	json_key(&j, "sites");
	json_array(&j);
	json_object(&j);
	json_end_object(&j);
	json_array(&j);
	json_end_array(&j);
	json_null(&j);
	json_end_array(&j);
	json_field_bool(&j, "exact", true);
	json_field_string(&j, "end", NULL);
	json_end_object(&j);
	assert_string_equal(buffer_string(&b),
			    "{\"calls\":12,\"sites\":[{},[],null],\"exact\":true,\"end\":null}");
}

static void pretty_style_indents(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_PRETTY);

	(void)state;
	json_object(&j);
	json_key(&j, "a");
	json_array(&j);
	json_u64(&j, 1);
	json_u64(&j, 2);
	json_end_array(&j);
	json_field_i64(&j, "b", -1);
	json_end_object(&j);
	assert_string_equal(buffer_string(&b),
			    "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": -1\n}\n");
}

static void nest(struct json *j, unsigned depth)
{
	for (unsigned i = 0; i < depth; i++) {
		if (i % 2)
			json_key(j, "k");
		if (i % 2)
			json_array(j);
		else
			json_object(j);
	}
	for (unsigned i = depth; i-- > 0;) {
		if (i % 2)
			json_end_array(j);
		else
			json_end_object(j);
	}
}

static void a_document_as_deep_as_the_limit_is_whole(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	(void)state;
	nest(&j, JSON_MAX_DEPTH);
	assert_false(b.failed);
	/* A bracket at each end of every level, and "k": before every second one. */
	assert_int_equal(b.size, JSON_MAX_DEPTH * 2 + JSON_MAX_DEPTH / 2 * 4);
	assert_memory_equal(b.data, "{\"k\":[{\"k\":[", 12);
	assert_memory_equal(b.data + b.size - 6, "]}]}]}", 6);
}

static void a_deeper_document_fails_and_does_no_harm(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	(void)state;
	nest(&j, JSON_MAX_DEPTH + 500);
	assert_true(b.failed);
	json_u64(&j, 1);
	assert_null(buffer_string(&b));
}

static void integers_keep_all_64_bits(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	(void)state;
	json_array(&j);
	json_u64(&j, UINT64_MAX);
	json_i64(&j, INT64_MIN);
	json_end_array(&j);
	assert_string_equal(buffer_string(&b), "[18446744073709551615,-9223372036854775808]");
}

static void doubles_read_back_equal(void **state)
{
	uint64_t seed = 17;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		AUTO(buffer_release) struct buffer b = BUFFER_INIT;
		struct json j = json_to(&b, JSON_COMPACT);
		uint64_t bits = unit_random(&seed);
		double value;

		memcpy(&value, &bits, sizeof value);
		json_double(&j, value);
		if (isfinite(value))
			assert_true(strtod(buffer_string(&b), NULL) == value);
		else
			assert_string_equal(buffer_string(&b), "null");
	}
}

static void short_doubles_stay_short(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	(void)state;
	json_array(&j);
	json_double(&j, 0.1);
	json_double(&j, 61.2);
	json_double(&j, NAN);
	json_double(&j, INFINITY);
	json_end_array(&j);
	assert_string_equal(buffer_string(&b), "[0.1,61.2,null,null]");
}

static void check_string(struct span in, const char *out)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	json_bytes(&j, in);
	assert_string_equal(buffer_string(&b), out);
}

#define CHECK_STRING(in, out) check_string(span_of((in), sizeof(in) - 1), (out))

static void strings_are_escaped(void **state)
{
	(void)state;
	CHECK_STRING("", "\"\"");
	CHECK_STRING("operator\"\"_x \\ /", "\"operator\\\"\\\"_x \\\\ /\"");
	CHECK_STRING("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
	CHECK_STRING("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
	CHECK_STRING("a\0b", "\"a\\u0000b\"");
	CHECK_STRING("Gr\xc3\xb6\xc3\x9f"
		     "e \xe2\x82\xac \xf0\x9f\x90\xb3",
		     "\"Gr\xc3\xb6\xc3\x9f"
		     "e \xe2\x82\xac \xf0\x9f\x90\xb3\"");
}

static void bytes_that_are_not_utf8_are_replaced_one_by_one(void **state)
{
	(void)state;
	CHECK_STRING("a\xff"
		     "b",
		     "\"a\xef\xbf\xbd"
		     "b\"");
	CHECK_STRING("\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	CHECK_STRING("\xc3\"", "\"\xef\xbf\xbd\\\"\"");
}

static void utf8_validity_follows_the_standard(void **state)
{
	static const struct {
		const char *bytes;
		size_t length; /* 0: not valid */
	} cases[] = {
		{ "A", 1 },
		{ "\xc2\x80", 2 },
		{ "\xdf\xbf", 2 },
		{ "\xe0\xa0\x80", 3 },
		{ "\xed\x9f\xbf", 3 },
		{ "\xee\x80\x80", 3 },
		{ "\xf0\x90\x80\x80", 4 },
		{ "\xf4\x8f\xbf\xbf", 4 },
		{ "\x80", 0 },		   /* continuation alone */
		{ "\xc0\xaf", 0 },	   /* overlong slash */
		{ "\xc1\xbf", 0 },	   /* overlong */
		{ "\xe0\x9f\xbf", 0 },	   /* overlong */
		{ "\xed\xa0\x80", 0 },	   /* surrogate */
		{ "\xf0\x8f\xbf\xbf", 0 }, /* overlong */
		{ "\xf4\x90\x80\x80", 0 }, /* above U+10FFFF */
		{ "\xf5\x80\x80\x80", 0 },
		{ "\xff", 0 },
		{ "\xe2\x82"
		  "A",
		  0 },
		{ "\xf0\x9f\x90", 0 }, /* cut */
		{ "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(utf8_sequence(span_of(cases[i].bytes, strlen(cases[i].bytes))),
				 cases[i].length);
}

static void any_bytes_give_valid_utf8_without_control_characters(void **state)
{
	uint64_t seed = 23;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		AUTO(buffer_release) struct buffer b = BUFFER_INIT;
		struct json j = json_to(&b, JSON_COMPACT);
		uint8_t bytes[24];

		for (size_t k = 0; k < sizeof bytes; k++)
			bytes[k] = (uint8_t)unit_random(&seed);
		json_bytes(&j, span_of(bytes, unit_random(&seed) % sizeof bytes));
		for (size_t at = 0, length; at < b.size; at += length) {
			length = utf8_sequence(span_of(b.data + at, b.size - at));
			assert_in_range(length, 1, 4);
			assert_true(b.data[at] >= 0x20 && b.data[at] != 0x7f);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structure_has_its_commas),
		cmocka_unit_test(pretty_style_indents),
		cmocka_unit_test(a_document_as_deep_as_the_limit_is_whole),
		cmocka_unit_test(a_deeper_document_fails_and_does_no_harm),
		cmocka_unit_test(integers_keep_all_64_bits),
		cmocka_unit_test(doubles_read_back_equal),
		cmocka_unit_test(short_doubles_stay_short),
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(bytes_that_are_not_utf8_are_replaced_one_by_one),
		cmocka_unit_test(utf8_validity_follows_the_standard),
		cmocka_unit_test(any_bytes_give_valid_utf8_without_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
