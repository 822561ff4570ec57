/* SPDX-License-Identifier: Apache-2.0 */
/* links: model format */
/* The chunk of an image: what is written is read, and numbers that no writer makes are refused or made harmless. */
#include "test_model_made.h"

#include "format/recording/recording.h"

static struct recording with_image(void)
{
	struct recording r = made_recording(1);
	struct image_rows *image = &r.processes[0].image;

	*image = (struct image_rows){ .reach = calloc(1, sizeof *image->reach),
				      .reach_sites = calloc(2, sizeof *image->reach_sites),
				      .retained = calloc(1, sizeof *image->retained),
				      .holders = calloc(1, sizeof *image->holders),
				      .paths = calloc(2, sizeof *image->paths),
				      .types = calloc(1, sizeof *image->types),
				      .site_types = calloc(1, sizeof *image->site_types),
				      .reach_count = 1,
				      .reach_site_count = 2,
				      .retained_count = 1,
				      .holder_count = 1,
				      .path_count = 2,
				      .type_count = 1,
				      .site_type_count = 1 };
	assert_true(image->reach && image->reach_sites && image->retained && image->holders);
	assert_true(image->paths && image->types && image->site_types);
	*image->reach = (struct reach_row){ 3, 300, 1, 4, 500, 600, 7, 8, 1 };
	image->reach_sites[0] = (struct reach_site_row){ 1, REACH_GLOBAL, 1, 100, 1 };
	image->reach_sites[1] = (struct reach_site_row){ 1, REACH_RING, 2, 200, 0 };
	image->retained[0] = (struct retained_row){ 1, 1, 17, 300 };
	image->holders[0] = (struct holder_row){ REACH_GLOBAL, 1, 100, strdup("cache (app)") };
	image->paths[0] = (struct path_row){ 1, 1, 1, 9, 3 };
	image->paths[1] = (struct path_row){ 1, 0, 0, 0, 40 };
	image->types[0] = (struct reach_type_row){ 700, strdup("N2ns5EntryE") };
	image->site_types[0] = (struct site_type_row){ 1, 0, 2, 200, 100 };
	return r;
}

/* Encodes, decodes and releases; returns what came back. */
static struct recording pass(struct recording *r)
{
	struct recording back = { 0 };
	struct format_error error = { "" };
	void *bytes = NULL;
	size_t length;

	assert_int_equal(recording_encode(r, &bytes, &length, &error), 0);
	assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
	recording_release(r);
	free(bytes);
	return back;
}

static void an_image_is_read_as_it_was_written(void **state)
{
	struct recording r = with_image(), back = pass(&r);
	const struct image_rows *image = &back.processes[0].image;
	const struct reach_row expected = { 3, 300, 1, 4, 500, 600, 7, 8, 1 };
	const struct reach_site_row ring = { 1, REACH_RING, 2, 200, 0 };
	const struct site_type_row typed = { 1, 0, 2, 200, 100 };
	struct path_row step;

	memset(&step, 0, sizeof step);
	step.site = step.from = step.type = 1;
	step.offset = 9;
	step.blocks = 3;

	(void)state;
	assert_int_equal(back.warnings.bad_chunks, 0);
	assert_memory_equal(image->reach, &expected, sizeof expected);
	assert_int_equal(image->reach_site_count, 2);
	assert_memory_equal(&image->reach_sites[1], &ring, sizeof ring);
	assert_int_equal(image->retained[0].bytes, 300);
	assert_string_equal(image->holders[0].name, "cache (app)");
	assert_int_equal(image->retained[0].offset, 17);
	assert_int_equal(image->path_count, 2);
	assert_memory_equal(&image->paths[0], &step, sizeof step);
	assert_int_equal(image->paths[1].blocks, 40);
	assert_int_equal(image->types[0].retained_bytes, 700);
	assert_string_equal(image->types[0].name, "N2ns5EntryE");
	assert_memory_equal(image->site_types, &typed, sizeof typed);
	recording_release(&back);
}

static void a_site_that_does_not_exist_makes_the_chunk_bad(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct recording r = with_image();
		struct image_rows *image = &r.processes[0].image;
		uint32_t *wrong[] = { &image->reach_sites[1].site, &image->retained[0].site,
				      &image->paths[1].site,	   &image->paths[0].from,
				      &image->site_types[0].site,  &image->site_types[0].type };

		*wrong[i] = i % 2 ? UINT32_MAX : (uint32_t)r.processes[0].site_count;
		struct recording back = pass(&r);

		assert_int_equal(back.warnings.bad_chunks, 1);
		assert_int_equal(back.processes[0].image.reach_count, 0);
		assert_null(back.processes[0].image.holders);
		recording_release(&back);
	}
}

static void what_a_newer_version_wrote_is_unknown(void **state)
{
	struct recording r = with_image();

	(void)state;
	r.processes[0].image.reach_sites[0].class = REACH_CLASSES;
	r.processes[0].image.holders[0].class = REACH_DIRECT;
	r.processes[0].image.retained[0].holder = 2;
	r.processes[0].image.paths[0].type = 2;
	struct recording back = pass(&r);

	assert_int_equal(back.warnings.bad_chunks, 0);
	assert_int_equal(back.processes[0].image.reach_sites[0].class, REACH_UNKNOWN);
	assert_int_equal(back.processes[0].image.holders[0].class, REACH_UNKNOWN);
	assert_int_equal(back.processes[0].image.retained[0].holder, 0);
	assert_int_equal(back.processes[0].image.paths[0].type, 0);
	recording_release(&back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_image_is_read_as_it_was_written),
		cmocka_unit_test(a_site_that_does_not_exist_makes_the_chunk_bad),
		cmocka_unit_test(what_a_newer_version_wrote_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
