/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The lock of snapshots is not held while the counters are copied: that takes as long as there are counters. */
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

struct lock;
static void check_lock(bool taken);
#define LOCK_CHECK(lock, taken) check_lock(taken)

/* clang-format off: the check comes first */
#include "recorder/lock.c"
#include "recorder/counters/marks.c"
/* clang-format on */

#include "unit.h"

enum { TOTAL_BYTES = 64 << 20, COUNTERS = 1000 };

static volatile sig_atomic_t held, copies, copies_under_lock;
static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct live_slot live;
static struct slot slot = { .live = &live };

static void check_lock(bool taken)
{
	held = taken;
}

uint32_t tags_name(struct slot *unused, enum live_tag_kind kind, const char *name)
{
	(void)unused, (void)kind, (void)name;
	return 0;
}

static int make_profile(void **state)
{
	struct live_header *head =
		mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	marks_reset();
	return memory_append(LIVE_SITE_COUNTERS, COUNTERS, sizeof(struct live_site_counters)) == 0
		       ? 0
		       : -1;
}

static int protect_ring(int protection)
{
	return mprotect(memory.region[LIVE_SAVED], memory_opened(LIVE_SAVED), protection);
}

/* The first write to the ring. */
static void on_access(int number)
{
	copies++;
	copies_under_lock += held;
	if (number != SIGSEGV || protect_ring(PROT_READ | PROT_WRITE) != 0)
		_exit(1);
}

static void a_snapshot_is_copied_without_the_lock(void **state)
{
	const struct live_mark *mark = (const void *)memory.region[LIVE_MARKS];
	struct sigaction action = { .sa_handler = on_access }, before;

	(void)state;
	marks_add(&slot, LIVE_MARK_SNAPSHOT, NULL); /* opens the ring */
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	assert_int_equal(protect_ring(PROT_READ), 0);
	marks_add(&slot, LIVE_MARK_SNAPSHOT, NULL);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_int_equal(copies, 1);
	assert_int_equal(copies_under_lock, 0);
	assert_int_equal(mark[1].site_counters_count, COUNTERS);
	assert_true(mark[1].saved_at >= mark[0].saved_at + mark[0].saved_count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_is_copied_without_the_lock),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
