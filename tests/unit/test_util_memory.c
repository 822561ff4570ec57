/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "util/arena.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/intern.h"
#include "util/numbering.h"
#include "util/vector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "unit.h"

static void an_error_gets_context_in_front(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(error_set(&err, "checksum of chunk %d differs", 7), -1);
	assert_int_equal(error_wrap(&err, "reading %s", "run.hg"), -1);
	assert_string_equal(err.message, "reading run.hg: checksum of chunk 7 differs");
	assert_int_equal(error_set(NULL, "nobody asked"), -1);
	assert_int_equal(error_wrap(NULL, "nobody asked"), -1);
}

static void an_error_tells_errno_and_keeps_it(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	errno = ENOENT;
	assert_int_equal(error_errno(&err, "open %s", "run.hg"), -1);
	assert_string_equal(err.message, "open run.hg: No such file or directory");
	assert_int_equal(errno, ENOENT);
}

static void a_long_error_is_cut_at_its_end_and_marked(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	error_set(&err, "%0600d", 1);
	assert_int_equal(strlen(err.message), ERROR_MESSAGE_BYTES - 1);
	assert_string_equal(err.message + ERROR_MESSAGE_BYTES - 4, "...");
	error_wrap(&err, "outer");
	assert_memory_equal(err.message, "outer: 000", 10);
	assert_string_equal(err.message + ERROR_MESSAGE_BYTES - 4, "...");
}

static void a_cut_error_never_ends_in_half_a_character(void **state)
{
	(void)state;
	for (int lead = 0; lead < 3; lead++) {
		struct error err = ERROR_INIT;
		char text[700] = { 0 };
		size_t length;

		/* Three-byte characters, shifted so that the cut falls on each of their bytes once. */
		memset(text, 'x', (size_t)lead);
		for (int i = 0; i < 200; i++)
			memcpy(text + lead + 3 * i, "\xe2\x82\xac", 3);
		error_set(&err, "%s", text);
		length = strlen(err.message);
		assert_string_equal(err.message + length - 3, "...");
		assert_int_equal((length - 3 - (size_t)lead) % 3, 0);
	}
}

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	enum { COUNT = 3000 };
	static struct {
		uint8_t *at;
		size_t size;
	} pieces[COUNT];
	uint64_t seed = 99;

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		/* Mostly small ones, some that need a block of their own. */
		size_t size = unit_random(&seed) % (i % 500 == 0 ? 700000 : 200);

		pieces[i].at = arena_alloc(&arena, size);
		pieces[i].size = size;
		assert_non_null(pieces[i].at);
		assert_int_equal((uintptr_t)pieces[i].at % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < size; k++)
			assert_true(pieces[i].at[k] == 0);
		memset(pieces[i].at, i & 0xff, size);
	}
	for (int i = 0; i < COUNT; i++)
		for (size_t k = 0; k < pieces[i].size; k++)
			assert_true(pieces[i].at[k] == (uint8_t)(i & 0xff));
}

static void a_large_piece_does_not_waste_the_open_block(void **state)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	uint8_t *a = arena_alloc(&arena, 16), *large = arena_alloc(&arena, 5000000),
		*b = arena_alloc(&arena, 16);

	(void)state;
	assert_non_null(large);
	assert_ptr_equal(b, a + 16);
}

static void an_impossible_arena_size_is_refused(void **state)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;

	(void)state;
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, SIZE_MAX - 64));
	assert_null(arena_alloc_array(&arena, SIZE_MAX / 2, 3));
	assert_non_null(arena_alloc(&arena, 1));
}

static void arena_strings_are_copies(void **state)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	char text[] = "main.c";
	char *copy = arena_strdup(&arena, text);

	(void)state;
	text[0] = 'X';
	assert_string_equal(copy, "main.c");
	assert_string_equal(arena_string(&arena, span_of("gaugeXX", 5)), "gauge");
	assert_string_equal(arena_string(&arena, span_of(NULL, 0)), "");
	assert_string_equal(arena_printf(&arena, "%s:%d", copy, 41), "main.c:41");
}

static void a_buffer_grows_and_is_read_by_a_cursor(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct cursor c;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++) {
		buffer_u32(&b, (uint32_t)i);
		buffer_u64(&b, i << 32);
		buffer_append(&b, "xyz", i % 4);
	}
	assert_false(b.failed);
	c = cursor_over(buffer_span(&b));
	for (uint64_t i = 0; i < 10000; i++) {
		assert_int_equal(cursor_u32(&c), i);
		assert_true(cursor_u64(&c) == i << 32);
		cursor_skip(&c, i % 4);
	}
	assert_false(c.failed);
	assert_int_equal(cursor_left(&c), 0);
}

static void a_buffer_makes_text(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	char *taken;

	(void)state;
	buffer_text(&b, "peak ");
	buffer_printf(&b, "%d", 214);
	buffer_char(&b, ' ');
	buffer_fill(&b, '=', 3);
	buffer_patch(&b, 0, "PEAK", 4);
	assert_string_equal(buffer_string(&b), "PEAK 214 ===");
	assert_int_equal(b.size, 12);
	taken = buffer_take_string(&b);
	assert_string_equal(taken, "PEAK 214 ===");
	assert_int_equal(b.size, 0);
	free(taken);
	assert_string_equal(buffer_string(&b), "");
}

static void a_buffer_that_ran_out_of_memory_stays_failed(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;

	(void)state;
	buffer_text(&b, "kept");
	assert_null(buffer_reserve(&b, SIZE_MAX - 2));
	assert_true(b.failed);
	buffer_text(&b, "lost");
	assert_null(buffer_string(&b));
	assert_true(span_equal(buffer_span(&b), span_of("kept", 4)));
	buffer_clear(&b);
	buffer_text(&b, "again");
	assert_string_equal(buffer_string(&b), "again");
}

static void equal_items_have_one_number_while_there_are_more_and_more(void **state)
{
	enum { ITEMS = 1000 };
	static const char texts[ITEMS];
	AUTO(numbering_release) struct numbering pointers = { 0 }, pairs = { 0 };

	(void)state;
	for (size_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < ITEMS; i++) {
			const struct {
				uint32_t a, b;
			} pair = { i / 10, i % 10 };

			assert_int_equal(number_of(&pairs, pair), i);
			assert_int_equal(number_of(&pointers, &texts[i]), i);
		}
	assert_int_equal(pairs.count, ITEMS);
	assert_ptr_equal(numbered(&pointers, ITEMS - 1), &texts[ITEMS - 1]);
}

static void a_vector_keeps_order_while_it_grows(void **state)
{
	VECTOR(uint64_t) v = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_true(vector_push(&v, i * 3));
	assert_int_equal(v.count, 100000);
	for (uint64_t i = 0; i < v.count; i++)
		assert_true(v.at[i] == i * 3);
	assert_false(vector_reserve(&v, SIZE_MAX / 4));
	assert_false(vector_reserve(&v, SIZE_MAX));
	assert_int_equal(v.count, 100000);
	assert_true(v.at[99999] == 299997);
	vector_release(&v);
	assert_null(v.at);
	assert_int_equal(v.count, 0);
}

static char *make_name(bool give)
{
	AUTO_FREE char *name = strdup("taken");

	return give ? TAKE(name) : NULL;
}

static int open_null(bool give)
{
	AUTO_CLOSE int fd = open("/dev/null", O_RDONLY);

	return give ? TAKE_FD(fd) : fd;
}

static void what_is_taken_outlives_its_scope_and_the_rest_does_not(void **state)
{
	char *name = make_name(true);
	int kept = open_null(true), closed;

	(void)state;
	assert_string_equal(name, "taken");
	free(name);
	assert_null(make_name(false)); /* a leak here is the leak checker's find */
	assert_true(fcntl(kept, F_GETFD) >= 0);
	closed = open_null(false);
	assert_true(closed >= 0);
	assert_int_equal(fcntl(closed, F_GETFD), -1);
	close(kept);
}

static void equal_strings_are_interned_once(void **state)
{
	enum { TEXTS = 5000 };
	struct intern strings = INTERN_INIT;
	const char *kept[TEXTS];
	char text[32];

	(void)state;
	for (int i = 0; i < TEXTS; i++) {
		snprintf(text, sizeof text, "name %d", i);
		kept[i] = intern_text(&strings, text);
		assert_string_equal(kept[i], text);
		assert_ptr_not_equal(kept[i], text);
	}
	for (int i = 0; i < TEXTS; i++) {
		snprintf(text, sizeof text, "name %d", i);
		assert_ptr_equal(intern_text(&strings, text), kept[i]);
	}
	assert_int_equal(strings.used, TEXTS);
	/* Length counts: one is the beginning of the other, and one holds a NUL. */
	assert_ptr_not_equal(intern_span(&strings, span_of("ab", 1)), intern_text(&strings, "ab"));
	assert_ptr_not_equal(intern_span(&strings, span_of("ab", 3)), intern_text(&strings, "ab"));
	assert_string_equal(intern_span(&strings, span_of(NULL, 0)), "");
	assert_ptr_equal(intern_text(&strings, ""), intern_span(&strings, span_of(NULL, 0)));
	intern_release(&strings);
	assert_string_equal(intern_text(&strings, "again"), "again");
	intern_release(&strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_gets_context_in_front),
		cmocka_unit_test(an_error_tells_errno_and_keeps_it),
		cmocka_unit_test(a_long_error_is_cut_at_its_end_and_marked),
		cmocka_unit_test(a_cut_error_never_ends_in_half_a_character),
		cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
		cmocka_unit_test(a_large_piece_does_not_waste_the_open_block),
		cmocka_unit_test(an_impossible_arena_size_is_refused),
		cmocka_unit_test(arena_strings_are_copies),
		cmocka_unit_test(a_buffer_grows_and_is_read_by_a_cursor),
		cmocka_unit_test(a_buffer_makes_text),
		cmocka_unit_test(a_buffer_that_ran_out_of_memory_stays_failed),
		cmocka_unit_test(equal_strings_are_interned_once),
		cmocka_unit_test(equal_items_have_one_number_while_there_are_more_and_more),
		cmocka_unit_test(a_vector_keeps_order_while_it_grows),
		cmocka_unit_test(what_is_taken_outlives_its_scope_and_the_rest_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
