/* links: format base */
/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be wrapped, as it is read: the right functions, pools and shapes, and an end whatever the text says. */
#include "format/wraps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "unit.h"

/* "pool/shape/function" of each item, with a space behind; "!" if something was wrong. */
static char *read_all(const char *text, char *to, size_t room)
{
	struct wraps wraps = { .text = text };
	struct wrap_item item;
	size_t at = 0;

	to[0] = '\0';
	while (wraps_next(&wraps, &item))
		at += (size_t)snprintf(to + at, room - at, "%u/%.*s/%d/%.*s%.*s ", item.group,
				       (int)item.pool.bytes, item.pool.at, (int)item.shape,
				       (int)item.name.bytes, item.name.at, (int)item.rest.bytes,
				       item.rest.at);
	if (wraps.wrong)
		snprintf(to + at, room - at, "!");
	return to;
}

static void functions_have_a_shape_and_a_pool(void **state)
{
	char got[4096];

	(void)state;
	assert_string_equal(read_all("malloc:my_alloc,free:my_free", got, sizeof got),
			    "0/my_alloc/0/my_alloc 0/my_alloc/4/my_free ");
	assert_string_equal(read_all("a b=memalign:x;calloc:y,strndup:z", got, sizeof got),
			    "0/a b/5/x 1/y/1/y 1/y/7/z ");
	assert_string_equal(read_all("p_*", got, sizeof got),
			    "0/p_/0/p_malloc 0/p_/4/p_free 0/p_/1/p_calloc 0/p_/2/p_realloc "
			    "0/p_/3/p_reallocarray 0/p_/5/p_aligned_alloc 0/p_/5/p_memalign "
			    "0/p_/6/p_posix_memalign 0/p_/0/p_valloc 0/p_/0/p_pvalloc "
			    "0/p_/7/p_strdup 0/p_/7/p_strndup ");
	read_all("n=p_*,free:gone;malloc:m", got, sizeof got);
	assert_non_null(strstr(got, " 0/n/4/gone 1/m/0/m "));
	assert_string_equal(read_all("", got, sizeof got), "");
}

static void what_makes_no_sense_is_told(void **state)
{
	static const char *const bad[] = {
		"malloc",     "malloc:", ":x",	 "new:x",	    "malloc:x,",
		"malloc:x;",  ",",	 "*",	 "=malloc:x",	    "a=",
		"malloc:x y", "a=b=c:d", "p_*x", "malloc:x;;free:y"
	};
	char got[4096];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_non_null(strchr(read_all(bad[i], got, sizeof got), '!'));
}

static void any_text_comes_to_an_end(void **state)
{
	static const char letters[] = "malocfre_*:;,=x ";
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		char text[24] = "";
		struct wraps wraps = { .text = text };
		struct wrap_item item;
		size_t length = hash_mix(seed++) % sizeof text, count = 0;

		for (size_t j = 0; j + 1 < length; j++)
			text[j] = letters[hash_mix(seed++) % (sizeof letters - 1)];
		while (wraps_next(&wraps, &item)) {
			assert_true(item.shape < WRAP_SHAPES);
			assert_true(item.name.bytes > 0 && item.pool.bytes > 0);
			assert_true(item.name.at >= text &&
				    item.name.at + item.name.bytes <= text + sizeof text);
			assert_true(++count < 200);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_have_a_shape_and_a_pool),
		cmocka_unit_test(what_makes_no_sense_is_told),
		cmocka_unit_test(any_text_comes_to_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
