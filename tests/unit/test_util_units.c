/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "util/text/units.h"

#include "unit.h"

static void bytes_have_one_decimal_and_the_right_unit(void **state)
{
	(void)state;
	assert_string_equal(units_bytes(0).text, "0 B");
	assert_string_equal(units_bytes(1023).text, "1023 B");
	assert_string_equal(units_bytes(1024).text, "1.0 KiB");
	assert_string_equal(units_bytes(1536).text, "1.5 KiB");
	assert_string_equal(units_bytes(224395264).text, "214.0 MiB");
	assert_string_equal(units_bytes(UINT64_MAX).text, "16.0 EiB");
}

static void rounding_up_changes_the_unit(void **state)
{
	(void)state;
	assert_string_equal(units_bytes(1048575).text, "1.0 MiB");
	assert_string_equal(units_bytes(1048576 - 51).text, "1.0 MiB");
	assert_string_equal(units_bytes(1048576 - 52).text, "1023.9 KiB");
	assert_string_equal(units_count_short(999999).text, "1.0 M");
}

static void changes_carry_their_sign(void **state)
{
	(void)state;
	assert_string_equal(units_bytes_change(10276045).text, "+9.8 MiB");
	assert_string_equal(units_bytes_change(-512).text, "-512 B");
	assert_string_equal(units_bytes_change(0).text, "0 B");
	assert_string_equal(units_bytes_change(INT64_MIN).text, "-8.0 EiB");
}

static void counts_have_separators(void **state)
{
	(void)state;
	assert_string_equal(units_count(0).text, "0");
	assert_string_equal(units_count(999).text, "999");
	assert_string_equal(units_count(1000).text, "1,000");
	assert_string_equal(units_count(1204118).text, "1,204,118");
	assert_string_equal(units_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
	assert_string_equal(units_count_short(940).text, "940");
	assert_string_equal(units_count_short(1900000).text, "1.9 M");
	assert_string_equal(units_count_short(UINT64_MAX).text, "18.4 E");
}

static void durations_fit_their_length(void **state)
{
	const uint64_t s = 1000000000;

	(void)state;
	assert_string_equal(units_duration(0).text, "0 ns");
	assert_string_equal(units_duration(850).text, "850 ns");
	assert_string_equal(units_duration(12400).text, "12.4 us");
	assert_string_equal(units_duration(350 * 1000000).text, "350.0 ms");
	assert_string_equal(units_duration(12400 * (s / 1000)).text, "12.4 s");
	assert_string_equal(units_duration(59940000000).text, "59.9 s");
	assert_string_equal(units_duration(59960000000).text, "1 min 00 s");
	assert_string_equal(units_duration(185 * s).text, "3 min 05 s");
	assert_string_equal(units_duration(3599 * s + s / 2).text, "1 h 00 min");
	assert_string_equal(units_duration((2 * 3600 + 3 * 60) * s).text, "2 h 03 min");
	assert_string_equal(units_duration((4 * 86400 + 7 * 3600) * s).text, "4 d 07 h");
	assert_string_equal(units_duration(UINT64_MAX).text, "213503 d 23 h");
}

static void percentages_are_of_something(void **state)
{
	(void)state;
	assert_string_equal(units_percent(612, 1000).text, "61.2 %");
	assert_string_equal(units_percent(1, 3).text, "33.3 %");
	assert_string_equal(units_percent(2, 3).text, "66.7 %");
	assert_string_equal(units_percent(UINT64_MAX, UINT64_MAX).text, "100.0 %");
	assert_string_equal(units_percent(0, 5).text, "0.0 %");
	assert_string_equal(units_percent(5, 0).text, "-");
}

static void sizes_are_read_as_people_write_them(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "512B", 512 },
		{ "64MiB", UINT64_C(64) << 20 },
		{ "64 M", UINT64_C(64) << 20 },
		{ "64m", UINT64_C(64) << 20 },
		{ "10MB", 10000000 },
		{ "1kB", 1000 },
		{ "1.5GiB", UINT64_C(3) << 29 },
		{ "0.5K", 512 },
		{ "2TiB", UINT64_C(2) << 40 },
		{ "15EiB", UINT64_C(15) << 60 },
		{ "18446744073709551615", UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 1;

		assert_true(units_parse_bytes(cases[i].text, &bytes));
		assert_true(bytes == cases[i].bytes);
	}
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"MiB",
		"-1",
		"+1",
		" 1",
		"1 MiB ",
		"1  M",
		"64X",
		"1Mi",
		"1MiBs",
		"1.",
		".5M",
		"1.5.2M",
		"18446744073709551616",
		"16EiB",
		"15.99999EiBx",
		"0x10",
		"1e3",
		"99999999999T",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t bytes = 77;

		assert_false(units_parse_bytes(bad[i], &bytes));
		assert_true(bytes == 77);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_have_one_decimal_and_the_right_unit),
		cmocka_unit_test(rounding_up_changes_the_unit),
		cmocka_unit_test(changes_carry_their_sign),
		cmocka_unit_test(counts_have_separators),
		cmocka_unit_test(durations_fit_their_length),
		cmocka_unit_test(percentages_are_of_something),
		cmocka_unit_test(sizes_are_read_as_people_write_them),
		cmocka_unit_test(what_is_no_size_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
