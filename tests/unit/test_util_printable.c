/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
/* H10: what a terminal would act on is not shown as it is. */
#include "util/text/printable.h"

#include <string.h>

#include "unit.h"
#include "util/text/json.h"

static void assert_shown(const char *text, bool ascii, const char *expected)
{
	struct buffer b = BUFFER_INIT;

	buffer_printable(&b, text, ascii);
	assert_string_equal(b.size ? buffer_string(&b) : "", expected);
	buffer_release(&b);
}

static void controls_are_question_marks(void **state)
{
	(void)state;
	assert_shown("plain text, 100 %", false, "plain text, 100 %");
	assert_shown("a\033[31mb\nc\td\rE\177", false, "a?[31mb?c?d?E?");
	assert_shown("\xc2\x9b"
		     "31m \xc2\x80 \xc2\x9f \xc2\xa0",
		     false,
		     "?31m ? ? \xc2\xa0"); /* C1 in UTF-8; a space that does not break is text */
	assert_shown("\x9b"
		     "31m \x80 \xff",
		     false, "?31m ? ?"); /* bare bytes */
}

static void directions_are_question_marks(void **state)
{
	(void)state;
	assert_shown("\u202a\u202b\u202c\u202d\u202e", false, "?????");
	assert_shown("\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029", false, "?????????");
	assert_shown("\u2027 \u202f \u2065 \u200d \u061b", false,
		     "\u2027 \u202f \u2065 \u200d \u061b");
}

static void names_of_all_languages_are_shown(void **state)
{
	(void)state;
	assert_shown("größe_λ_関数_שלום_🙂", false, "größe_λ_関数_שלום_🙂");
	/* U+00DB has the byte 0x9b, which begins a command where UTF-8 is not understood. */
	assert_shown("a\u00db31m", true, "a?31m");
}

static void lines_stay_where_they_may(void **state)
{
	struct buffer b = BUFFER_INIT;

	(void)state;
	buffer_printable_lines(&b, span_of("a\033b\nc\n", 6));
	assert_string_equal(buffer_string(&b), "a?b\nc\n");
	buffer_release(&b);
}

static void json_has_them_as_escapes(void **state)
{
	struct buffer b = BUFFER_INIT;
	struct json j = json_to(&b, JSON_COMPACT);

	(void)state;
	json_string(&j, "\u202ex\xc2\x85\177\xffü");
	assert_string_equal(buffer_string(&b), "\"\\u202ex\\u0085\\u007f\xef\xbf\xbdü\"");
	buffer_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(controls_are_question_marks),
		cmocka_unit_test(directions_are_question_marks),
		cmocka_unit_test(names_of_all_languages_are_shown),
		cmocka_unit_test(lines_stay_where_they_may),
		cmocka_unit_test(json_has_them_as_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
