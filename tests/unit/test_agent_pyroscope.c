/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent export util base */
/* Requests of the push API, decoded again by a reader of protobuf that knows no schema. The real schema reads them in tests/e2e/agent. */
#include "agent/push/pyroscope.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/varint.h"
#include "util/cleanup.h"
#include "unit.h"

static struct pyroscope_id id_of(const char *machine, uint64_t pid, uint64_t start, uint64_t serial)
{
	return pyroscope_id(&(struct pyroscope_source){ machine, pid, start, serial });
}

static void equal_sources_have_equal_ids_and_others_do_not(void **state)
{
	struct pyroscope_id ids[] = {
		id_of("host", 1, 2, 3), id_of("hosT", 1, 2, 3),	  id_of("host", 2, 2, 3),
		id_of("host", 1, 3, 3), id_of("host", 1, 2, 4),	  id_of("host", 2, 1, 3),
		id_of("", 1, 2, 3),	id_of("host\1", 1, 2, 3),
	};

	(void)state;
	/* Fixed: an item that an older agent queued has the same id. */
	assert_string_equal(ids[0].text, "b155084c-97fb-8e91-b401-96ce3962060d");
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_int_equal(strlen(ids[i].text), 36);
		assert_int_equal(ids[i].text[14], '8');
		assert_non_null(strchr("89ab", ids[i].text[19]));
		assert_int_equal(strspn(ids[i].text, "0123456789abcdef-"), 36);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(ids[i].text, ids[j].text);
	}
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct pyroscope_id));
}

static void ids_of_many_sources_are_unique(void **state)
{
	enum { PIDS = 300, SERIALS = 300 };
	AUTO_FREE struct pyroscope_id *ids = calloc((size_t)PIDS * SERIALS, sizeof *ids);
	size_t count = 0;

	(void)state;
	assert_non_null(ids);
	for (uint64_t pid = 1; pid <= PIDS; pid++)
		for (uint64_t serial = 0; serial < SERIALS; serial++)
			ids[count++] = id_of("9d3c", pid, pid * 100, serial);
	qsort(ids, count, sizeof *ids, compare_ids);
	for (size_t i = 1; i < count; i++)
		assert_int_not_equal(compare_ids(&ids[i - 1], &ids[i]), 0);
}

/* ---- reading ---- */

/* Reads one field of bytes; returns its number, 0 at the end. */
static unsigned next_field(struct span *rest, struct span *ret)
{
	uint64_t key = 0, size = 0;
	size_t used;

	if (rest->size == 0)
		return 0;
	used = varint_get(rest->data, rest->size, &key);
	assert_true(used > 0);
	assert_int_equal(key & 7, 2);
	*rest = span_of(rest->data + used, rest->size - used);
	used = varint_get(rest->data, rest->size, &size);
	assert_true(used > 0);
	assert_true(span_part(*rest, used, size, ret));
	*rest = span_of(rest->data + used + size, rest->size - used - size);
	return (unsigned)(key >> 3);
}

/* "NAME=VALUE,...;ID;PROFILE" of each series, and a newline. */
static void describe(struct span request, struct buffer *out)
{
	struct span series = { 0 }, part = { 0 }, field = { 0 };

	buffer_clear(out);
	while (next_field(&request, &series) == 1) {
		for (unsigned number; (number = next_field(&series, &part));) {
			unsigned first = next_field(&part, &field);

			assert_int_equal(first, 1);
			if (number == 1) {
				buffer_append(out, field.data, field.size);
				buffer_char(out, '=');
				assert_int_equal(next_field(&part, &field), 2);
				buffer_append(out, field.data, field.size);
				buffer_char(out, ',');
			} else {
				struct span profile = field;

				assert_int_equal(number, 2);
				assert_int_equal(next_field(&part, &field), 2);
				buffer_char(out, ';');
				buffer_append(out, field.data, field.size);
				buffer_char(out, ';');
				buffer_append(out, profile.data, profile.size);
			}
			assert_int_equal(part.size, 0);
		}
		buffer_char(out, '\n');
	}
	assert_int_equal(request.size, 0);
}

static const struct pyroscope_id some_id = { "11111111-2222-8333-8444-555555555555" };

static int encode(const struct pyroscope_label *labels, size_t count, struct buffer *out,
		  struct error *err)
{
	return pyroscope_encode(labels, count, some_id, span_of("PROFILE", 7), out, err);
}

static void a_batch_is_the_concatenation_of_requests(void **state)
{
	const struct pyroscope_label labels[] = {
		{ "service_name", "shop" }, { "pod", "" }, { "host", "h1" }, { "Z", "1" }
	};
	AUTO(buffer_release) struct buffer out = BUFFER_INIT, text = BUFFER_INIT;

	(void)state;
	assert_int_equal(encode(labels, ARRAY_SIZE(labels), &out, NULL), 0);
	assert_int_equal(encode(labels, 1, &out, NULL), 0);
	describe(buffer_span(&out), &text);
	assert_string_equal(buffer_string(&text),
			    "Z=1,__delta__=false,__name__=memory,host=h1,service_name=shop,;"
			    "11111111-2222-8333-8444-555555555555;PROFILE\n"
			    "__delta__=false,__name__=memory,service_name=shop,;"
			    "11111111-2222-8333-8444-555555555555;PROFILE\n");
}

static void hostile_values_become_valid(void **state)
{
	AUTO(buffer_release) struct buffer out = BUFFER_INIT, text = BUFFER_INIT;
	AUTO(buffer_release) struct buffer value = BUFFER_INIT;
	char expected[3000];

	(void)state;
	buffer_text(&value, "a\xff\xc3\xc3\xa4"
			    "b\n");
	assert_int_equal(encode(&(struct pyroscope_label){ "service_name", buffer_string(&value) },
				1, &out, NULL),
			 0);
	describe(buffer_span(&out), &text);
	assert_non_null(strstr(buffer_string(&text),
			       "service_name=a\xef\xbf\xbd\xef\xbf\xbd\xc3\xa4"
			       "b\n,"));
	/* Truncated between characters: 1 + 1023 * 2 = 2047 bytes. */
	buffer_clear(&value);
	buffer_clear(&out);
	buffer_char(&value, 'x');
	for (int i = 0; i < 5000; i++)
		buffer_text(&value, "\xc3\xa4");
	assert_int_equal(encode(&(struct pyroscope_label){ "service_name", buffer_string(&value) },
				1, &out, NULL),
			 0);
	describe(buffer_span(&out), &text);
	snprintf(expected, sizeof expected, "service_name=%.2047s,;", buffer_string(&value));
	assert_non_null(strstr(buffer_string(&text), expected));
}

static void check_refused(const struct pyroscope_label *labels, size_t count, const char *why)
{
	AUTO(buffer_release) struct buffer out = BUFFER_INIT;
	struct error err = ERROR_INIT;

	buffer_text(&out, "before");
	assert_int_equal(encode(labels, count, &out, &err), -1);
	assert_string_equal(buffer_string(&out), "before");
	if (!strstr(err.message, why))
		fail_msg("%s", err.message);
}

static void labels_that_the_store_would_refuse_are_refused(void **state)
{
	static char long_name[PYROSCOPE_LABEL_NAME_MAX + 2];
	static char names[PYROSCOPE_LABELS_MAX][8];
	struct pyroscope_label many[PYROSCOPE_LABELS_MAX];
	AUTO(buffer_release) struct buffer out = BUFFER_INIT;

	(void)state;
	memset(long_name, 'n', sizeof long_name - 1);
	check_refused(NULL, 0, "service_name");
	check_refused((struct pyroscope_label[]){ { "service_name", "" } }, 1, "service_name");
	check_refused((struct pyroscope_label[]){ { "service_name", "x" }, { "", "y" } }, 2,
		      "label 2 has no valid name");
	check_refused((struct pyroscope_label[]){ { "service_name", "x" }, { "\xff", "y" } }, 2,
		      "label 2 has no valid name");
	check_refused((struct pyroscope_label[]){ { long_name, "x" } }, 1, "label 1 has no valid");
	check_refused(
		(struct pyroscope_label[]){ { "service_name", "x" }, { "service_name", "y" } }, 2,
		"more than one label service_name");
	check_refused((struct pyroscope_label[]){ { "service_name", "x" }, { "__name__", "cpu" } },
		      2, "more than one label __name__");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		snprintf(names[i], sizeof names[i], "l%zu", i);
		many[i] = (struct pyroscope_label){ i ? names[i] : "service_name", "v" };
	}
	check_refused(many, 29, "more than 30 labels");
	assert_int_equal(encode(many, 28, &out, NULL), 0);
	long_name[PYROSCOPE_LABEL_NAME_MAX] = '\0';
	many[1].name = long_name;
	assert_int_equal(encode(many, 28, &out, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_sources_have_equal_ids_and_others_do_not),
		cmocka_unit_test(ids_of_many_sources_are_unique),
		cmocka_unit_test(a_batch_is_the_concatenation_of_requests),
		cmocka_unit_test(hostile_values_become_valid),
		cmocka_unit_test(labels_that_the_store_would_refuse_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
