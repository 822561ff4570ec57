/* SPDX-License-Identifier: Apache-2.0 */
/* links: format base */
/* The layout of the live profile and the small codes in it: births, size buckets, frame and block words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "format/live/live.h"
#include "format/live/live_view.h"

static struct live_header *new_header(uint64_t total_bytes)
{
	struct live_header *header = aligned_alloc(LIVE_PAGE, sizeof *header);

	assert_non_null(header);
	memset(header, 0, sizeof *header);
	assert_int_equal(live_header_init(header, total_bytes), 0);
	return header;
}

static void every_total_gives_regions_that_pass_the_check(void **state)
{
	(void)state;
	for (uint64_t total = LIVE_TOTAL_MIN; total <= (4ull << 40); total += total / 3 + 12345) {
		struct live_header *header = new_header(total);

		assert_null(live_header_check(header, total));
		assert_true(header->total_bytes <= total &&
			    total - header->total_bytes < LIVE_REGION_ALIGN);
		for (unsigned i = 0; i < LIVE_REGIONS; i++) {
			assert_int_equal(header->region[i].at % LIVE_REGION_ALIGN, 0);
			assert_int_equal(header->region[i].bytes % LIVE_REGION_ALIGN, 0);
		}
		assert_int_equal(header->region[LIVE_LEAVES].bytes % LIVE_LEAF_UNIT, 0);
		assert_true(header->region[LIVE_LEAVES].bytes >= 16 * LIVE_LEAF_UNIT);
		assert_true(header->region[LIVE_SITE_COUNTERS].bytes /
				    sizeof(struct live_site_counters) <=
			    1ull << LIVE_SMALL_COUNTERS_BITS);
		assert_true(header->region[LIVE_SLOTS].bytes / sizeof(struct live_slot) >= 128);
		assert_true(header->region[LIVE_AREAS].bytes / sizeof(struct live_area) >= 16);
		assert_true(header->region[LIVE_LEAF_ERAS].bytes / sizeof(uint32_t) >=
			    header->region[LIVE_LEAVES].bytes / LIVE_LEAF_UNIT);
		assert_true(header->region[LIVE_ERAS].bytes / LIVE_ERA_UNIT >= 16);
		free(header);
	}
}

static void the_default_has_room_for_what_the_design_names(void **state)
{
	struct live_header *header = new_header(LIVE_TOTAL_DEFAULT);

	(void)state;
	assert_int_equal(header->region[LIVE_SITE_COUNTERS].bytes, 4ull << 30);
	assert_true(header->region[LIVE_AREAS].bytes >= sizeof(struct live_area) << 15);
	assert_int_equal(header->region[LIVE_SLOTS].bytes / sizeof(struct live_slot), 16384);
	assert_true(header->region[LIVE_SITES].bytes / sizeof(struct live_site) >=
		    10 * 1000 * 1000);
	/* 144 GiB of heap, 64 of them with blocks that are younger than the process by 9.3 hours */
	assert_true(header->region[LIVE_LEAVES].bytes >= 36ull << 30);
	assert_true(header->region[LIVE_ERAS].bytes >= 4ull << 30);
	free(header);
}

static void a_total_that_is_too_small_is_refused(void **state)
{
	struct live_header *header = new_header(LIVE_TOTAL_MIN);

	(void)state;
	assert_int_equal(live_header_init(header, LIVE_TOTAL_MIN - 1), -1);
	free(header);
}

static void expect_refusal(struct live_header *header, uint64_t mapped, const char *words)
{
	const char *reason = live_header_check(header, mapped);

	assert_non_null(reason);
	assert_non_null(strstr(reason, words));
	free(header);
}

/* A profile may be read on another architecture than that of its process, where addresses have more or fewer bits. */
static void the_top_of_the_block_map_ends_with_the_header(void **state)
{
	static const size_t entries[] = { 1 << 15, 1 << 16 };
	const uint64_t total = 64ull << 20, more = sizeof(uint32_t) << 16;
	struct live_view view;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		struct live_header *h = new_header(total);

		h->header_bytes = LIVE_FRONT_BYTES + entries[i] * sizeof *h->top;
		for (int j = 0; j < LIVE_REGIONS; j++)
			h->region[j].at += more;
		assert_null(live_view_init(&view, h, total + more));
		assert_int_equal(view.top_entries, entries[i]);
		free(h);
	}
}

static void a_wrong_head_is_refused_with_a_reason(void **state)
{
	const uint64_t total = 64ull << 20;
	struct live_header *h;

	(void)state;
	h = new_header(total);
	expect_refusal(h, LIVE_FRONT_BYTES - 1, "too small");
	h = new_header(total);
	expect_refusal(h, sizeof *h - 1, "size of its header");
	h = new_header(total);
	h->magic[0] ^= 1;
	expect_refusal(h, total, "not a live profile");
	h = new_header(total);
	h->major++;
	expect_refusal(h, total, "another format");
	h = new_header(total);
	h->incompatible = 4;
	expect_refusal(h, total, "feature");
	h = new_header(total);
	h->header_bytes = 64;
	expect_refusal(h, total, "size of its header");
	h = new_header(total);
	expect_refusal(h, total - LIVE_PAGE, "part of it is mapped");
	h = new_header(total);
	h->region[LIVE_POOL].at = 0;
	expect_refusal(h, total, "outside");
	h = new_header(total);
	h->region[LIVE_POOL].bytes = UINT64_MAX - LIVE_PAGE + 1;
	expect_refusal(h, total, "outside");
	h = new_header(total);
	h->region[LIVE_POOL].at += 8;
	expect_refusal(h, total, "page-aligned");
	h = new_header(total);
	h->region[LIVE_POOL].bytes += LIVE_PAGE;
	expect_refusal(h, total, "overlap");
}

static void a_later_minor_version_is_accepted(void **state)
{
	const uint64_t total = 64ull << 20;
	struct live_header *header = new_header(total);

	(void)state;
	header->minor += 7;
	header->compatible = ~0ull;
	assert_null(live_header_check(header, total));
	free(header);
}

/* R11: to the millisecond, at any age of the process. */
static void a_birth_is_exact_for_69_years(void **state)
{
	(void)state;
	for (uint64_t ms = 0; ms < (1ull << 41) - 1; ms += 1 + ms / 7) {
		uint64_t shown = live_clock(ms), era = live_era(shown);
		uint32_t code = (uint32_t)shown & LIVE_BIRTH_MASK;

		assert_true(shown <= ms && ms - shown <= 1);
		assert_true(era <= UINT16_MAX && code < 1u << LIVE_SMALL_BIRTH_BITS);
		assert_int_equal(live_birth(era, code), shown);
		assert_true(live_birth_is_known(shown));
	}
}

static void no_time_that_the_clock_shows_is_the_code_for_not_known(void **state)
{
	(void)state;
	for (uint64_t era = 0; era <= UINT16_MAX; era += 1 + era / 3) {
		uint64_t last = live_birth(era, LIVE_BIRTH_UNKNOWN);

		assert_false(live_birth_is_known(last));
		assert_int_equal(live_clock(last), last - 1);
		assert_int_equal(live_clock(last - 1), last - 1);
		assert_int_equal(live_clock(last + 1), last + 1);
	}
}

static void a_size_bucket_begins_at_its_floor(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LIVE_SIZE_BUCKETS; i++) {
		uint64_t floor = live_size_bucket_floor(i);

		assert_int_equal(live_size_bucket(floor), i);
		if (i > 0)
			assert_int_equal(live_size_bucket(floor - 1), i - 1);
	}
	assert_int_equal(live_size_bucket(UINT64_MAX), LIVE_SIZE_BUCKETS - 1);
}

static void words_give_back_what_was_packed(void **state)
{
	uint32_t counters = (1u << LIVE_SMALL_COUNTERS_BITS) - 1,
		 birth = (1u << LIVE_SMALL_BIRTH_BITS) - 2;
	uint64_t word = live_small_pack(counters, LIVE_SMALL_LIMIT - 1, birth, 2);
	uint64_t frame = live_frame_pack(65535, (1ull << 47) - 5, 1);

	(void)state;
	assert_int_equal(live_small_counters(word), counters);
	assert_int_equal(live_small_size(word), LIVE_SMALL_LIMIT - 1);
	assert_int_equal(live_small_birth(word), birth);
	assert_int_equal(live_small_place(word), 2);
	assert_int_equal(live_small_place_of(0x1018), 3);
	assert_int_equal(live_frame_module(frame), 65535);
	assert_int_equal(live_frame_offset(frame), (1ull << 47) - 5);
	assert_int_equal(live_frame_exact(frame), 1);
	assert_int_equal(live_frame_exact(live_frame_pack(1, 2, 0)), 0);
}

static void every_health_counter_has_a_name_and_words(void **state)
{
	(void)state;
	for (unsigned i = 0; i < HEALTH_COUNT; i++) {
		assert_true(strlen(health_rows[i].name) > 3);
		assert_true(strlen(health_rows[i].text) > 10);
	}
	assert_string_equal(health_rows[HEALTH_clock_stopped_ms].name, "clock_stopped_ms");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_total_gives_regions_that_pass_the_check),
		cmocka_unit_test(the_default_has_room_for_what_the_design_names),
		cmocka_unit_test(a_total_that_is_too_small_is_refused),
		cmocka_unit_test(the_top_of_the_block_map_ends_with_the_header),
		cmocka_unit_test(a_wrong_head_is_refused_with_a_reason),
		cmocka_unit_test(a_later_minor_version_is_accepted),
		cmocka_unit_test(a_birth_is_exact_for_69_years),
		cmocka_unit_test(no_time_that_the_clock_shows_is_the_code_for_not_known),
		cmocka_unit_test(a_size_bucket_begins_at_its_floor),
		cmocka_unit_test(words_give_back_what_was_packed),
		cmocka_unit_test(every_health_counter_has_a_name_and_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
