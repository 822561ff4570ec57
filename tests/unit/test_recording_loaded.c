/* SPDX-License-Identifier: Apache-2.0 */
/* links: model format */
/* The chunks about loaded files: those that may hide memory, how many a process may have; and writable data, which ranges of it are
 * believed. */
#include "test_model_made.h"

#include "format/recording/recording.h"
#include "format/unrecorded.h"

/* Readers compare each with each stack that maps memory: a collector writes no more. */
static void more_files_than_a_process_may_have_are_a_bad_chunk(void **state)
{
	(void)state;
	for (size_t more = 0; more < 2; more++) {
		struct recording r = made_recording(1), back = { 0 };
		struct process_rows *p = &r.processes[0];
		struct format_error error = { "" };
		void *bytes = NULL;
		size_t length;

		assert_int_equal(p->unrecorded_count, 0);
		p->unrecorded_count = UNRECORDED_FILES_MAX + more;
		p->unrecorded = calloc(p->unrecorded_count, sizeof *p->unrecorded);
		assert_non_null(p->unrecorded);
		for (size_t i = 0; i < p->unrecorded_count; i++)
			p->unrecorded[i] = (struct unrecorded_row){ strdup("/lib/x.so"), i, i };
		assert_int_equal(recording_encode(&r, &bytes, &length, &error), 0);
		assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
		assert_int_equal(back.warnings.bad_chunks, more);
		recording_release(&back);
		recording_release(&r);
		free(bytes);
	}
}

static struct recording with_ranges(const struct static_range_row *ranges, size_t count)
{
	struct recording r = made_recording(1);
	struct static_rows *rows = &r.processes[0].globals;

	*rows = (struct static_rows){ .at_ns = 7, .threads = 3, .file_count = 2 };
	rows->files = calloc(2, sizeof *rows->files);
	rows->ranges = calloc(count, sizeof *rows->ranges);
	assert_true(rows->files && rows->ranges);
	rows->range_count = count;
	memcpy(rows->ranges, ranges, count * sizeof *ranges);
	rows->files[0] = (struct static_file_row){ strdup("/bin/a"), 40, { 1, 2, 3 }, 3 };
	rows->files[1] = (struct static_file_row){ strdup("/lib/b.so"), 0, { 0 }, 0 };
	return r;
}

static void writable_data_survives_a_round_trip(void **state)
{
	const struct static_range_row ranges[] = {
		{ 0, STATIC_ABSENT, 0x3b20, 0x4e0 },
		{ 0, STATIC_RESIDENT, 0x4000, 0x1000 },
		{ 0, STATIC_UNKNOWN, 0x9000, UINT64_MAX - 0x9000 },
		{ 1, STATIC_RESIDENT, 0x10, 1 },
	};
	struct recording r = with_ranges(ranges, ARRAY_SIZE(ranges)), back = { 0 };
	void *bytes = NULL;
	size_t length;

	(void)state;
	assert_int_equal(recording_encode(&r, &bytes, &length, NULL), 0);
	assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
	const struct static_rows *got = &back.processes[0].globals;

	assert_int_equal(back.warnings.bad_chunks, 0);
	assert_int_equal(got->at_ns, 7);
	assert_int_equal(got->threads, 3);
	assert_int_equal(got->file_count, 2);
	assert_string_equal(got->files[0].path, "/bin/a");
	assert_int_equal(got->files[0].tls_bytes, 40);
	assert_int_equal(got->files[0].build_id_bytes, 3);
	assert_memory_equal(got->files[0].build_id, "\1\2\3", 3);
	assert_string_equal(got->files[1].path, "/lib/b.so");
	assert_int_equal(got->range_count, ARRAY_SIZE(ranges));
	assert_memory_equal(got->ranges, ranges, sizeof ranges);
	recording_release(&back);
	recording_release(&r);
	free(bytes);
}

/* A file that is not there, files that descend, an unknown state, and an end beyond all addresses. */
static void ranges_that_make_no_sense_are_a_bad_chunk(void **state)
{
	static const struct static_range_row wrong[][2] = {
		{ { 0, STATIC_ABSENT, 0, 1 }, { 2, STATIC_ABSENT, 0, 1 } },
		{ { 1, STATIC_ABSENT, 0, 1 }, { 0, STATIC_ABSENT, 0, 1 } },
		{ { 0, STATIC_ABSENT, 0, 1 }, { 0, STATIC_UNKNOWN + 1, 1, 1 } },
		{ { 0, STATIC_ABSENT, 0, 1 }, { 0, STATIC_ABSENT, 2, UINT64_MAX } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct recording r = with_ranges(wrong[i], 2), back = { 0 };
		void *bytes = NULL;
		size_t length;

		assert_int_equal(recording_encode(&r, &bytes, &length, NULL), 0);
		assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
		assert_int_equal(back.warnings.bad_chunks, 1);
		assert_int_equal(back.processes[0].globals.file_count, 0);
		recording_release(&back);
		recording_release(&r);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writable_data_survives_a_round_trip),
		cmocka_unit_test(ranges_that_make_no_sense_are_a_bad_chunk),
		cmocka_unit_test(more_files_than_a_process_may_have_are_a_bad_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
