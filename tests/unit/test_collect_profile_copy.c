/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Of a profile that is copied nothing is cut off that a recorder may have left untouched, and what only claims to be there is. */
#include "collect/profile/profile_copy.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "format/health.h"
#include "live_made_file.h"
#include "unit.h"
#include "util/cleanup.h"

#define TOTAL (4ull << 30)
#define PATH "profile_copy.live"

static void open_to_used(struct live_header *head, enum live_region region, uint64_t entry_bytes)
{
	uint64_t bytes = head->used[region] * entry_bytes;

	head->opened[region] = MIN((bytes + LIVE_PAGE - 1) & ~(uint64_t)(LIVE_PAGE - 1),
				   head->region[region].bytes);
}

/* So many areas and units of eras, of which each unit and the first area are touched at one word. */
static uint64_t damage_of(uint64_t areas, uint64_t eras, uint64_t eras_touched)
{
	AUTO(profile_copy_release) struct profile_copy copy = PROFILE_COPY_INIT;
	struct error error = { 0 };
	struct made made;
	int fd = open(PATH, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	struct live_header *head = made_in_file(&made, fd, TOTAL);

	for (int i = 0; i < LIVE_REGIONS; i++)
		open_to_used(head, (enum live_region)i, 1024);
	made_append(&made, LIVE_AREAS, areas);
	made_append(&made, LIVE_ERAS, eras);
	open_to_used(head, LIVE_AREAS, sizeof(struct live_area));
	open_to_used(head, LIVE_ERAS, LIVE_ERA_UNIT);
	*(uint32_t *)made_at(&made, LIVE_AREAS) = 1;
	for (uint64_t i = 0; i < eras_touched; i++)
		((char *)made_at(&made, LIVE_ERAS))[i * LIVE_ERA_UNIT] = 1;
	munmap(head, TOTAL);
	close(fd);
	assert_int_equal(profile_copy_take_file(&copy, PATH, PROFILE_COPY_ALL, &error), 0);
	unlink(PATH);
	return profile_copy_head(&copy)->health[HEALTH_damaged_tables];
}

static void what_is_not_touched_is_no_damage(void **state)
{
	(void)state;
	assert_int_equal(damage_of(1, 0, 0), 0);
	/* Four threads made areas for one place at once: a storm of mode changes showed it once in 100 runs. */
	assert_int_equal(damage_of(4, 0, 0), 0);
	/* A heap of 200 MiB, ten days old, with one small block in each of them. */
	assert_int_equal(damage_of(1, 200, 200), 0);
}

static void what_only_claims_to_be_there_is_cut(void **state)
{
	(void)state;
	assert_int_equal(damage_of(1000, 0, 0), 1);
	assert_int_equal(damage_of(1, 1000, 1), 1);
}

/* The file is longer than the profile in it says, and that is shorter than a header with all entries of `top`. */
static void a_short_profile_is_copied_to_its_end(void **state)
{
	enum { SHORT = 1 << 16, BEYOND = 1 << 20 };
	AUTO(profile_copy_release) struct profile_copy copy = PROFILE_COPY_INIT;
	struct error error = { 0 };
	struct made made;
	int fd = open(PATH, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	struct live_header *head = made_in_file(&made, fd, TOTAL);
	uint64_t front = (LIVE_FRONT_BYTES + LIVE_PAGE - 1) & ~(LIVE_PAGE - 1ull);

	assert_true(front < SHORT && SHORT < sizeof *head);
	head->total_bytes = SHORT;
	head->header_bytes = (uint32_t)front;
	for (int i = 0; i < LIVE_REGIONS; i++)
		head->region[i] = (struct live_span){ front, 0 };
	memset(head->opened, 0, sizeof head->opened);
	memset(head->used, 0, sizeof head->used);
	memset(head->top, 1, sizeof head->top); /* no hole */
	munmap(head, TOTAL);
	/* The kernel puts the copy below this: beyond its end nothing can be written. */
	void *guard = mmap(NULL, BEYOND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(guard != MAP_FAILED);
	int status = profile_copy_take_file(&copy, PATH, PROFILE_COPY_ALL, &error);

	munmap(guard, BEYOND);
	close(fd);
	unlink(PATH);
	if (status < 0)
		fail_msg("%s", error.message);
	assert_int_equal(copy.bytes, SHORT);
}

/* What the recorder gave back in between is zero in the second copy too. */
static void a_refreshed_copy_has_nothing_of_the_last_one(void **state)
{
	enum { UNITS = 4 };
	AUTO(profile_copy_release) struct profile_copy copy = PROFILE_COPY_INIT;
	struct error error = { 0 };
	struct made made;
	int fd = open(PATH, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	struct live_header *head = made_in_file(&made, fd, TOTAL);
	uint64_t at = head->region[LIVE_LEAVES].at;

	made_append(&made, LIVE_LEAVES, UNITS);
	head->opened[LIVE_LEAVES] = UNITS * (uint64_t)LIVE_LEAF_UNIT;
	memset((char *)head + at, 1, UNITS * (size_t)LIVE_LEAF_UNIT);
	assert_int_equal(profile_copy_take_file(&copy, PATH, PROFILE_COPY_ALL, &error), 0);
	const char *memory = copy.memory;

	assert_int_equal(memory[at + LIVE_LEAF_UNIT], 1);
	/* One unit becomes a hole, another changes. */
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)(at + LIVE_LEAF_UNIT), LIVE_LEAF_UNIT),
			 0);
	((char *)head)[at] = 2;
	copy.refresh = true;
	assert_int_equal(profile_copy_take_file(&copy, PATH, PROFILE_COPY_ALL, &error), 0);
	assert_ptr_equal(copy.memory, memory);
	assert_int_equal(memory[at], 2);
	assert_int_equal(memory[at + LIVE_LEAF_UNIT - 1], 1);
	for (uint64_t i = 0; i < LIVE_LEAF_UNIT; i++)
		assert_int_equal(memory[at + LIVE_LEAF_UNIT + i], 0);
	assert_int_equal(memory[at + 2 * LIVE_LEAF_UNIT], 1);
	munmap(head, TOTAL);
	close(fd);
	unlink(PATH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_touched_is_no_damage),
		cmocka_unit_test(what_only_claims_to_be_there_is_cut),
		cmocka_unit_test(a_short_profile_is_copied_to_its_end),
		cmocka_unit_test(a_refreshed_copy_has_nothing_of_the_last_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
