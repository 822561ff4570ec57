/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
/* A recording of this very program, bundled: its names and its source come back from the file alone. */
#include "test_model_made.h"

#include <link.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/build.h"
#include "model/frames/bundle.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"

static int here_line;

static NOINLINE uintptr_t here(void)
{
	__asm__ volatile("" ::: "memory");
	return (uintptr_t)__builtin_return_address(0);
}

static NOINLINE uintptr_t a_place_of_its_own(void)
{
	here_line = __LINE__ + 1;
	uintptr_t address = here(); /* this line travels */

	__asm__ volatile("" ::: "memory");
	return address;
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1; /* the program itself comes first */
}

static struct profile *profile_of_self(void)
{
	struct recording r = made_recording(2);
	char path[512] = { 0 };
	uint64_t bias = 0;

	dl_iterate_phdr(take_bias, &bias);
	assert_true(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
	for (size_t i = 0; i < r.process_count; i++) {
		struct process_rows *rows = &r.processes[i];

		free(rows->modules[1].path);
		rows->modules[1].path = strdup(path);
		rows->modules[1].build_id_bytes = 0;
		rows->frames[1] = live_frame_pack(1, a_place_of_its_own() - bias, 0);
	}
	struct profile *p = profile_new(&r, NULL);

	assert_non_null(p);
	return p;
}

static void take_line(void *context, uint32_t line, const char *text)
{
	buffer_printf(context, "%u:%s\n", line, text);
}

static struct names *new_names(enum name_style style)
{
	struct names_options options = { .use_symbols = true, .style = style };
	struct names *names = names_new(&options);

	assert_non_null(names);
	return names;
}

static void names_and_source_come_back_from_the_file(void **state)
{
	char path[] = "/tmp/test_model_bundle.XXXXXX";
	AUTO_FREE char *folder = path_folder(__FILE__);
	AUTO_FREE char *project = realpath(folder, NULL);
	struct bundle_options options = { .source_lines = 1,
					  .source_folders = (const char *[]){ project },
					  .source_folder_count = 1 };
	struct bundle_counts counts;
	struct error error = ERROR_INIT;
	struct names *names = new_names(NAMES_RAW);
	struct profile *profile = profile_of_self();
	struct stat status;

	(void)state;
	assert_int_equal(close(mkstemp(path)), 0);
	assert_int_equal(bundle_write(profile, names, &options, path, &counts, &error), 0);
	/* Of each process' frames three are marks, and four are of modules that do not exist. */
	assert_int_equal(counts.frames, 2 * 5);
	assert_int_equal(counts.named, 2);
	assert_int_equal(counts.source_lines, 2 * 3);
	names_free(names);
	profile_free(profile);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);

	profile = profile_load(path, &error);
	assert_non_null(profile);
	struct arena arena = ARENA_INIT;

	names = new_names(NAMES_SHORT);
	for (size_t i = 0; i < 2; i++) {
		const struct profile_process *p = &profile->processes[i];
		struct named_stack stack;

		assert_int_equal(
			names_frame(names, p, profile_frame_at(p, (frame_id){ 1 }), &arena, &stack),
			0);
		assert_int_equal(stack.count, 1);
		assert_string_equal(stack.at[0].function, "a_place_of_its_own");
		assert_int_equal(stack.at[0].line, here_line);
		struct buffer lines = BUFFER_INIT;

		bundle_lines(p, stack.at[0].file, take_line, &lines);
		bundle_lines(p, "/no/such/file.c", take_line, &lines);
		char wanted[300];

		snprintf(wanted, sizeof wanted,
			 "%d:\there_line = __LINE__ + 1;\n"
			 "%d:\tuintptr_t address = here(); /* this line travels */\n"
			 "%d:\n",
			 here_line - 1, here_line, here_line + 1);
		assert_string_equal(buffer_string(&lines), wanted);
		buffer_release(&lines);
		assert_int_equal(
			names_frame(names, p, profile_frame_at(p, (frame_id){ 4 }), &arena, &stack),
			0);
		assert_string_equal(stack.at[0].function, "libhttp.so.1+0x4000");
	}
	arena_release(&arena);
	names_free(names);
	profile_free(profile);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_source_come_back_from_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
