/* SPDX-License-Identifier: Apache-2.0 */
/* links: model format */
/* The chunk of files that may hide memory: how many a process may have. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_files_than_a_process_may_have_are_a_bad_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
