/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
/* Names of a profile's frames: what a view may rely on when it groups by them. */
#include "test_model_made.h"

#include <link.h>
#include <unistd.h>

#include "model/build.h"
#include "model/frames/names.h"

static struct profile *made_profile(size_t processes)
{
	struct recording r = made_recording(processes);
	struct profile *p = profile_new(&r, NULL);

	assert_non_null(p);
	return p;
}

static struct profile_frame leaf_of(const struct profile_process *p, uint32_t node)
{
	struct arena arena = ARENA_INIT;
	struct profile_frame *frames, leaf;

	assert_true(profile_stack(p, (node_id){ node }, &arena, &frames) > 0);
	leaf = frames[0];
	arena_release(&arena);
	return leaf;
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1; /* the program itself comes first */
}

static uint64_t offset_of(uintptr_t address)
{
	uint64_t bias = 0;

	dl_iterate_phdr(take_bias, &bias);
	return address - bias;
}

static NOINLINE uintptr_t here_one(void)
{
	__asm__ volatile("" ::: "memory"); /* not to be merged */
	return (uintptr_t)__builtin_return_address(0);
}

/* Two frames of one function, in two processes, whose module is this program. */
static NOINLINE struct profile *profile_of_self(void)
{
	struct recording r = made_recording(2);
	uint64_t one = offset_of(here_one()), two = offset_of(here_one());
	char path[512] = { 0 };

	assert_true(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
	for (size_t i = 0; i < r.process_count; i++) {
		struct process_rows *rows = &r.processes[i];

		free((char *)rows->modules[1].path);
		rows->modules[1].path = strdup(path);
		rows->modules[1].build_id_bytes = 0;
		rows->frames[1] = live_frame_pack(1, one, 0);
		rows->frames[2] = live_frame_pack(1, two, 0);
	}
	struct profile *p = profile_new(&r, NULL);

	assert_non_null(p);
	return p;
}

static void equal_texts_are_the_same_pointer(void **state)
{
	struct profile *profile = profile_of_self();
	struct names_options options = { .use_symbols = true };
	struct names *names = names_new(&options);
	struct named_stack first, second, other;
	struct arena arena = ARENA_INIT;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct profile_process *p = &profile->processes[i];

		assert_int_equal(names_frame(names, p, leaf_of(p, 1), &arena, &first), 0);
		assert_int_equal(names_frame(names, p, leaf_of(p, 2), &arena, &second), 0);
		assert_int_equal(first.count, 1);
		assert_string_equal(first.at[0].function, "profile_of_self");
		assert_true(first.at[0].named);
		assert_ptr_not_equal(first.at, second.at);
		assert_ptr_equal(first.at[0].function, second.at[0].function);
		assert_ptr_equal(first.at[0].file, second.at[0].file);
		assert_ptr_equal(first.at[0].module, second.at[0].module);
		if (i > 0)
			assert_ptr_equal(first.at[0].function, other.at[0].function);
		if (i > 0)
			assert_ptr_equal(first.at[0].module, other.at[0].module);
		other = first;
	}
	arena_release(&arena);
	names_free(names);
	profile_free(profile);
}

static void frames_of_processes_share_names(void **state)
{
	struct profile *profile = made_profile(2);
	const struct profile_process *p = profile->processes, *q = p + 1;
	struct names *names = names_new(NULL);
	struct named_stack first, again;
	struct arena arena = ARENA_INIT;

	(void)state;
	for (uint32_t node = 1; node < 10; node++) {
		struct profile_frame leaf = leaf_of(p, node);

		assert_int_equal(names_frame(names, p, leaf, &arena, &first), 0);
		assert_int_equal(names_frame(names, q, leaf_of(q, node), &arena, &again), 0);
		assert_ptr_equal(first.at[0].function, again.at[0].function);
		assert_ptr_equal(first.at[0].module, again.at[0].module);
	}
	assert_int_equal(names_frame(names, p, leaf_of(p, 6), &arena, &first), 0);
	assert_string_equal(first.at[0].function, "libhttp.so.1+0x4000");
	assert_int_equal(names_frame(names, p, leaf_of(p, 5), &arena, &first), 0);
	assert_string_equal(first.at[0].function, "[outer frames truncated]");
	assert_int_equal(names_frame(names, p, leaf_of(p, 8), &arena, &again), 0);
	assert_string_equal(again.at[0].function, "0xffff1234");
	/* Marks and bare addresses are both in no module. */
	assert_ptr_equal(first.at[0].module, again.at[0].module);
	arena_release(&arena);
	names_free(names);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_texts_are_the_same_pointer),
		cmocka_unit_test(frames_of_processes_share_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
