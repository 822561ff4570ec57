/* SPDX-License-Identifier: Apache-2.0 */
/* Heap profiles of other tools as rows: what they say, what they do not say, and files that lie. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/import/import.h"
#include "export/protobuf.h"
#include "util/gzip.h"

#define MAPS                                                                                       \
	"\nMAPPED_LIBRARIES:\n"                                                                    \
	"10000000000-10000001000 r--p 00000000 fe:00 1   /no/such/program\n"                       \
	"10000001000-10000002000 r-xp 00001000 fe:00 1   /no/such/program\n"                       \
	"20000001000-20000002000 r-xp 00001000 fe:00 2   /no/such/libjemalloc.so.2 (deleted)\n"

static struct error error;

static int read_bytes(struct span bytes, struct recording *ret)
{
	error = ERROR_INIT;
	return import_profile(bytes, NULL, ret, &error);
}

static int read_text(const char *text, struct recording *ret)
{
	return read_bytes(span_of(text, strlen(text)), ret);
}

static void jemalloc_stacks_begin_at_the_caller_of_the_allocator(void **state)
{
	struct recording r;

	(void)state;
	assert_int_equal(read_text("heap_v2/1\n  t*: 3: 300 [5: 500]\n  t0: 3: 300 [5: 500]\n"
				   "@ 0x20000001010 0x10000001020 0x10000001030\n"
				   "  t*: 3: 300 [5: 500]\n  t0: 3: 300 [5: 500]\n" MAPS,
				   &r),
			 0);
	const struct process_rows *p = &r.processes[0];

	assert_int_equal(p->process.imported, IMPORTED_WITH_TOTALS);
	assert_string_equal(p->process.exe, "/no/such/program");
	assert_int_equal(p->node_count, 3);
	uint64_t leaf = p->frames[p->nodes[p->sites[1].node].frame];

	assert_string_equal(p->modules[live_frame_module(leaf)].path, "/no/such/program");
	assert_int_equal(live_frame_offset(leaf), 0x1020);
	assert_int_equal(p->sites[1].interval, 0);
	assert_int_equal(p->process.calls, 5);
	assert_int_equal(p->process.bytes, 500);
	assert_int_equal(p->process.frees, 2);
	assert_int_equal(p->process.freed_bytes, 200);
	recording_release(&r);
}

static void jemalloc_samples_are_scaled_as_jeprof_does(void **state)
{
	struct recording r;
	double weight = 1 / (1 - exp(-100.0 / 1000));

	(void)state;
	assert_int_equal(read_text("heap_v2/1000\n  t*: 30: 3000 [0: 0]\n"
				   "@ 0x10000001020\n  t*: 10: 1000 [0: 0]\n"
				   "@ 0x10000001030\n  t*: 10: 1000 [0: 0]\n"
				   "@ 0x10000001040\n  t*: 10: 1000 [0: 0]\n" MAPS,
				   &r),
			 0);
	const struct process_rows *p = &r.processes[0];

	assert_int_equal(p->process.imported, IMPORTED_LIVE_ONLY);
	/* The sum is rounded once, not each part. */
	assert_int_equal(p->process.bytes, (uint64_t)(3 * 1000 * weight));
	assert_int_equal(p->process.calls, (uint64_t)(3 * 10 * weight));
	assert_int_equal(p->process.frees, 0);
	assert_int_equal(p->sites[1].interval, 1000);
	assert_int_equal(p->site_counters[0].samples.count, 10);
	assert_int_equal(p->site_counters[0].samples.calls_variance,
			 (uint64_t)(10 * weight * (weight - 1) * 256));
	assert_int_equal(p->site_counters[0].samples.frees_variance, 0);
	recording_release(&r);
}

static void totals_below_what_is_live_are_raised_and_counted(void **state)
{
	struct recording r;

	(void)state;
	/* One block of 8 bytes stands for many; with a large one, both stand for few. */
	assert_int_equal(read_text("heap_v2/524288\n  t*: 1: 8 [2: 524296]\n"
				   "@ 0x10000001020\n  t*: 1: 8 [2: 524296]\n" MAPS,
				   &r),
			 0);
	assert_int_equal(r.warnings.raised_sites, 1);
	assert_true(r.processes[0].process.calls > 60000);
	assert_int_equal(r.processes[0].process.frees, 0);
	recording_release(&r);
}

/* What is missing would count as 0. */
static void a_jemalloc_profile_that_is_cut_off_is_refused(void **state)
{
	static const char text[] = "heap_v2/1\n  t*: 2: 30 [0: 0]\n"
				   "@ 0x10000001020\n  t*: 1: 10 [0: 0]\n"
				   "@ 0x10000001030\n  t*: 1: 20 [0: 0]\n" MAPS;
	size_t names = (size_t)(strstr(text, "MAPPED_LIBRARIES:") - text) + 17;
	struct recording r;

	(void)state;
	for (size_t i = 0; i < sizeof text; i++) {
		char *cut = strndup(text, i);

		assert_non_null(cut);
		assert_int_equal(read_text(cut, &r), i < names ? -1 : 0);
		free(cut);
		if (i < names)
			continue;
		assert_int_equal(r.processes[0].process.bytes, 30);
		recording_release(&r);
	}
}

static void other_texts_are_refused(void **state)
{
	static const char *const texts[] = {
		"heap_v2/",
		"heap_v2/0\n",
		"heap_v2/x\n",
		"heap_v2/1\n@ nonsense\n",
		"heap_v2/1\n@ 0x1 0x2 z\n  t*: 1: 1 [1: 1]\n",
		"heap_v2/1\n@ 0x1\n  t*: 1: 1\n",
		"heap_v2/1\n@ 0x1\n  t*: -1: 1 [0: 0]\n",
		"heap_v2/1\n@ 0x1\n  t*: 1: 18446744073709551615 [0: 0]\n",
	};
	struct recording r;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(read_text(texts[i], &r), -1);
		assert_true(error.message[0]);
	}
}

/* A profile of one sample; what a test wants otherwise. */
struct made {
	const char *types[4];
	int64_t values[4];
	uint64_t location; /* of the sample */
	uint64_t period;
	bool unpacked;
};
static const struct made usual = { { "alloc_objects", "alloc_space", "inuse_objects",
				     "inuse_space" },
				   { 7, 7000, 3, 3000 },
				   5,
				   1,
				   false };

static void put_pair(struct buffer *b, unsigned field, uint64_t first, uint64_t second)
{
	size_t at = protobuf_begin(b, field);

	protobuf_number(b, 1, first);
	protobuf_number(b, 2, second);
	protobuf_end(b, at);
}

static void put_sample(struct buffer *b, const struct made *made)
{
	size_t at = protobuf_begin(b, 2);

	protobuf_number(b, 1, made->location);
	if (made->unpacked) {
		for (size_t i = 0; i < 4; i++)
			protobuf_number(b, 2, (uint64_t)made->values[i]);
	} else {
		size_t values = protobuf_begin(b, 2);

		for (size_t i = 0; i < 4; i++)
			protobuf_element(b, (uint64_t)made->values[i]);
		protobuf_end(b, values);
	}
	protobuf_end(b, at);
}

static void make(struct buffer *b, const struct made *made)
{
	static const char *const texts[] = { "space", "bytes", "/bin/x", "0aff",
					     "inner", "outer", "x.c" };
	size_t at;

	for (size_t i = 0; i < 4; i++)
		put_pair(b, 1, 8 + i, 2);
	put_sample(b, made);
	at = protobuf_begin(b, 3);
	protobuf_number(b, 1, 9);
	protobuf_number(b, 5, 3);
	protobuf_number(b, 6, 4);
	protobuf_end(b, at);
	at = protobuf_begin(b, 4);
	protobuf_number(b, 1, 5);
	protobuf_number(b, 2, 9);
	protobuf_number(b, 3, 0x1234);
	put_pair(b, 4, 1, 10);
	put_pair(b, 4, 2, 20);
	protobuf_end(b, at);
	for (uint64_t i = 1; i <= 2; i++) {
		at = protobuf_begin(b, 5);
		protobuf_number(b, 1, i);
		protobuf_number(b, 2, 4 + i);
		protobuf_number(b, 4, 7);
		protobuf_end(b, at);
	}
	protobuf_text(b, 6, "");
	for (size_t i = 0; i < 7; i++)
		protobuf_text(b, 6, texts[i]);
	for (size_t i = 0; i < 4; i++)
		protobuf_text(b, 6, made->types[i]);
	put_pair(b, 11, 1, 2);
	protobuf_number(b, 12, made->period);
	assert_false(b->failed);
}

static int read_made(const struct made *made, struct recording *ret)
{
	struct buffer b = BUFFER_INIT;

	make(&b, made);
	assert_true(import_recognizes(buffer_span(&b)));
	int status = read_bytes(buffer_span(&b), ret);

	buffer_release(&b);
	return status;
}

static void pprof_has_names_mappings_and_inlined_calls(void **state)
{
	struct made made = usual;
	struct recording r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		made.unpacked = i;
		assert_int_equal(read_made(&made, &r), 0);
		const struct process_rows *p = &r.processes[0];

		assert_int_equal(p->process.imported, IMPORTED_WITH_TOTALS);
		assert_int_equal(p->process.calls, 7);
		assert_int_equal(p->process.bytes, 7000);
		assert_int_equal(p->process.frees, 4);
		assert_int_equal(p->process.freed_bytes, 4000);
		assert_int_equal(p->sites[1].interval, 0);
		assert_string_equal(p->modules[1].path, "/bin/x");
		assert_int_equal(p->modules[1].build_id_bytes, 2);
		assert_memory_equal(p->modules[1].build_id, "\x0a\xff", 2);
		assert_int_equal(p->name_count, 2);
		assert_string_equal(p->texts + p->names[0].function, "inner");
		assert_string_equal(p->texts + p->names[1].function, "outer");
		assert_string_equal(p->texts + p->names[1].file, "x.c");
		assert_int_equal(p->names[0].line, 10);
		assert_true(p->names[0].inlined && !p->names[1].inlined);
		assert_int_equal(live_frame_offset(p->frames[p->names[0].frame]), 0x1234);
		recording_release(&r);
	}
}

static void pprof_without_totals_has_only_what_is_live(void **state)
{
	struct made made = usual;
	struct recording r;

	(void)state;
	made.types[0] = made.types[1] = "other";
	made.types[2] = "objects";
	made.types[3] = "space";
	made.period = 100000;
	assert_int_equal(read_made(&made, &r), 0);
	assert_int_equal(r.processes[0].process.imported, IMPORTED_LIVE_ONLY);
	assert_int_equal(r.processes[0].process.calls, 3);
	assert_int_equal(r.processes[0].process.bytes, 3000);
	assert_int_equal(r.processes[0].sites[1].interval, 100000);
	assert_true(r.processes[0].site_counters[0].samples.bytes_variance > 0);
	recording_release(&r);
}

static void pprof_files_that_lie_are_refused(void **state)
{
	struct made made = usual;
	struct recording r;

	(void)state;
	made.location = 6;
	assert_int_equal(read_made(&made, &r), -1);
	assert_non_null(strstr(error.message, "a location that the file lacks"));
	made = usual;
	made.values[3] = -1;
	assert_int_equal(read_made(&made, &r), -1);
	assert_non_null(strstr(error.message, "negative"));
	made = usual;
	made.values[3] = INT64_MAX;
	assert_int_equal(read_made(&made, &r), -1);
	assert_non_null(strstr(error.message, "too large"));
	made = usual;
	made.types[3] = "cpu";
	assert_int_equal(read_made(&made, &r), -1);
	assert_non_null(strstr(error.message, "not a heap profile"));
}

static void cut_files_are_refused_or_whole(void **state)
{
	struct buffer b = BUFFER_INIT, packed = BUFFER_INIT;
	struct recording r;

	(void)state;
	make(&b, &usual);
	for (size_t i = 0; i < b.size; i++)
		if (read_bytes(span_of(b.data, i), &r) == 0)
			recording_release(&r);
	/* One byte changed: any result, but no invalid access. */
	for (size_t i = 0; i < b.size; i++) {
		b.data[i] ^= 0xff;
		if (read_bytes(buffer_span(&b), &r) == 0)
			recording_release(&r);
		b.data[i] ^= 0xff;
	}
	assert_true(gzip_append(&packed, buffer_span(&b), GZIP_USUAL));
	assert_true(import_recognizes(buffer_span(&packed)));
	assert_int_equal(read_bytes(buffer_span(&packed), &r), 0);
	recording_release(&r);
	assert_int_equal(read_bytes(span_of(packed.data, packed.size - 1), &r), -1);
	buffer_release(&b);
	buffer_release(&packed);
}

static void recordings_and_texts_are_not_recognized(void **state)
{
	static const char *const others[] = { "", "HGREC\r\n\x1a........", "heap profile: 1",
					      "\n\x30\n\x30 a text", "\177ELF............" };

	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_false(import_recognizes(span_of(others[i], strlen(others[i]))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jemalloc_stacks_begin_at_the_caller_of_the_allocator),
		cmocka_unit_test(jemalloc_samples_are_scaled_as_jeprof_does),
		cmocka_unit_test(totals_below_what_is_live_are_raised_and_counted),
		cmocka_unit_test(a_jemalloc_profile_that_is_cut_off_is_refused),
		cmocka_unit_test(other_texts_are_refused),
		cmocka_unit_test(pprof_has_names_mappings_and_inlined_calls),
		cmocka_unit_test(pprof_without_totals_has_only_what_is_live),
		cmocka_unit_test(pprof_files_that_lie_are_refused),
		cmocka_unit_test(cut_files_are_refused_or_whole),
		cmocka_unit_test(recordings_and_texts_are_not_recognized),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
