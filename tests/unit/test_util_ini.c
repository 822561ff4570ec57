/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "util/text/ini.h"

#include <string.h>

#include "unit.h"

static struct arena arena;

static int release(void **state)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

static struct ini parsed(const char *text)
{
	struct ini ini = { 0 };

	assert_int_equal(ini_parse(&ini, span_of(text, strlen(text)), "x.ini", &arena, NULL), 0);
	return ini;
}

static void expect_entry(const struct ini *ini, size_t index, const char *section, const char *key,
			 const char *value, unsigned line)
{
	assert_true(index < ini->count);
	assert_string_equal(ini->entries[index].section, section);
	assert_string_equal(ini->entries[index].key, key);
	assert_string_equal(ini->entries[index].value, value);
	assert_int_equal(ini->entries[index].line, line);
}

static void expect_error(struct span text, const char *message)
{
	struct error error = ERROR_INIT;
	struct ini ini;

	assert_int_equal(ini_parse(&ini, text, "x.ini", &arena, &error), -1);
	assert_int_equal(strncmp(error.message, message, strlen(message)), 0);
}
#define EXPECT_ERROR(text, message) expect_error(span_of((text), sizeof(text) - 1), (message))

static void sections_keys_and_values_come_in_order_with_their_lines(void **state)
{
	struct ini ini = parsed("# comment\n"
				"early = 1\n"
				"\n"
				"[ report ]\r\n"
				"  limit=5\r\n"
				"; another\n"
				"focus = a # b ; c = d  \n"
				"limit =\n"
				"[all]");

	(void)state;
	assert_int_equal(ini.count, 4);
	expect_entry(&ini, 0, "", "early", "1", 2);
	expect_entry(&ini, 1, "report", "limit", "5", 5);
	expect_entry(&ini, 2, "report", "focus", "a # b ; c = d", 7);
	expect_entry(&ini, 3, "report", "limit", "", 8);
}

static void nothing_gives_nothing(void **state)
{
	(void)state;
	assert_int_equal(parsed("").count, 0);
	assert_int_equal(parsed("\xef\xbb\xbf").count, 0);
	assert_int_equal(parsed("\n\n \t\n").count, 0);
	assert_int_equal(parsed("\xef\xbb\xbf[a]\nb=c").count, 1);
}

static void a_mistake_names_its_line(void **state)
{
	(void)state;
	EXPECT_ERROR("[a]\nno equals\n", "x.ini:2: expected 'key = value'");
	EXPECT_ERROR("= value\n", "x.ini:1: expected 'key = value'");
	EXPECT_ERROR("a b = c\n", "x.ini:1: expected 'key = value'");
	EXPECT_ERROR("\n\n[open\n", "x.ini:3: a section is a name in brackets");
	EXPECT_ERROR("[", "x.ini:1: a section is a name in brackets");
	EXPECT_ERROR("[]", "x.ini:1: a section needs a name");
	EXPECT_ERROR("a = \x1b[2J\n", "x.ini:1: not a text file");
	EXPECT_ERROR("a = b\0c\n", "x.ini:1: not a text file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(sections_keys_and_values_come_in_order_with_their_lines,
					  release),
		cmocka_unit_test_teardown(nothing_gives_nothing, release),
		cmocka_unit_test_teardown(a_mistake_names_its_line, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
