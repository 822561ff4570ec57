/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The recorder's budget: what the collector says, or a share of the live heap up to a limit, which the recorder looks at
 * itself because a heap may grow faster than a collector follows. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/memory.h"
#include "unit.h"

#define MIB (1ull << 20)
#define TOTAL (4096 * MIB)

static struct live_control control;

static struct live_header *fresh(uint64_t budget, uint64_t limit)
{
	struct live_header *head = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(head != MAP_FAILED);
	assert_int_equal(live_header_init(head, TOTAL), 0);
	control.budget_bytes = budget;
	control.budget_limit_bytes = limit;
	memory_use(head, &control);
	assert_int_equal(memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot)), 0);
	return head;
}

static uint64_t most_nodes(void)
{
	uint64_t bytes = 0;

	while (bytes < 64 * MIB && memory_open(LIVE_NODES, bytes + 4096))
		bytes += 4096;
	return bytes;
}

static void done(struct live_header *head)
{
	munmap(head, TOTAL);
}

/* Where the page size is a constant, three times the same. */
static void what_is_opened_and_kept_are_whole_pages_of_any_size(void **state)
{
	static const uintptr_t sizes[] = { 4 << 10, 16 << 10, 64 << 10 };
	uintptr_t before = sys_page_bytes;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		sys_page_bytes = sizes[i];
		struct live_header *head = fresh(64 * MIB, 64 * MIB);

		for (int r = 0; r < LIVE_REGIONS; r++) {
			assert_true(memory_open(r, 1));
			assert_int_equal(head->region[r].at % sys_page(), 0);
			assert_int_equal(head->opened[r] % sys_page(), 0);
		}
		memory_shrink(256 * MIB);
		for (int r = 0; r < LIVE_REGIONS; r++)
			assert_int_equal(memory.kept_bytes[r] % sys_page(), 0);
		done(head);
	}
	sys_page_bytes = before;
}

static void a_budget_is_kept_to_the_page(void **state)
{
	struct live_header *head = fresh(2 * MIB, 2 * MIB);

	(void)state;
	memory_slot(0)->bytes = 1 << 30; /* a fixed budget has nothing to do with the heap */
	uint64_t got = most_nodes();

	assert_in_range(got, 2 * MIB - (64 << 10), 2 * MIB);
	assert_true(head->opened_bytes <= 2 * MIB);
	assert_int_equal(head->health[HEALTH_memory_failures], 1);
	done(head);
}

static void a_third_of_the_heap_is_had_without_the_collectors_word(void **state)
{
	struct live_header *head = fresh(1 * MIB, UINT64_MAX);

	(void)state;
	memory_slot(0)->bytes = 40 * MIB;
	memory_slot(0)->freed_bytes = 10 * MIB;
	uint64_t alone = most_nodes();

	assert_in_range(alone, 9 * MIB, 10 * MIB);
	memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));
	memory_slot(1)->bytes = 30 * MIB; /* the heap is what all slots hold */
	assert_in_range(most_nodes(), 19 * MIB, 20 * MIB);
	done(head);
}

static void the_limit_bounds_that_share(void **state)
{
	struct live_header *head = fresh(1 * MIB, 5 * MIB);

	(void)state;
	memory_slot(0)->bytes = 30 * MIB;
	assert_in_range(most_nodes(), 4 * MIB, 5 * MIB);
	done(head);
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static bool is_mapped(const void *page)
{
	unsigned char there;

	return mincore((void *)(uintptr_t)page, page_bytes(), &there) == 0;
}

/* R13: what lies behind the last region stayed, and with it all of the parent's profile. */
static void all_is_released_but_what_was_given_back(void **state)
{
	char *head = (char *)fresh(2 * MIB, 2 * MIB), *page = NULL;
	void *own_control = mmap(NULL, page_bytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t mapped = 0, given_back = 0;

	(void)state;
	memory.control = own_control;
	memory_shrink(1ull << 30);
	memory_shrink(1ull << 28);
	for (uint64_t at = 0; at < TOTAL; at += page_bytes()) {
		bool there = is_mapped(head + at);

		mapped += there;
		given_back += !there;
		if (!there && given_back % 1000 == 1) { /* the program's from now on */
			page = mmap(head + at, page_bytes(), PROT_READ,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
			assert_ptr_equal(page, head + at);
		}
	}
	assert_true(mapped > 100 && given_back > 1000);
	memory_release();
	assert_null(memory.head);
	assert_false(is_mapped(own_control));
	mapped = 0;
	for (uint64_t at = 0; at < TOTAL; at += page_bytes())
		mapped += is_mapped(head + at);
	assert_int_equal(mapped, (given_back + 999) / 1000);
	done((struct live_header *)(void *)head);
}

static struct live_header *shared;

/* Opens piece by piece, and writes to each. */
static void *open_and_write(void *unused)
{
	uint64_t bytes = 0;

	while (memory_open(LIVE_NODES, bytes + 4096)) {
		memory.region[LIVE_NODES][bytes] = 1;
		bytes += 4096;
	}
	return unused;
}

/* Whoever opens a piece while the region shrinks keeps it or fails. */
static void what_is_opened_while_a_region_shrinks_stays(void **state)
{
	enum { ROUNDS = 200, PAGES = 64 };

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t thread;

		shared = fresh(64 * MIB, 64 * MIB);
		assert_int_equal(pthread_create(&thread, NULL, open_and_write, NULL), 0);
		while (memory_opened(LIVE_NODES) < (uint64_t)(round % PAGES) * 4096)
			;
		memory_shrink(1 * MIB);
		uint64_t kept = memory.kept_bytes[LIVE_NODES],
			 reserved = memory.reserved_bytes[LIVE_NODES];
		/* What the program maps there is its own from now on. */
		char *own = mmap(
			memory.region[LIVE_NODES] + kept, reserved - kept, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(memory_opened(LIVE_NODES) <= kept);
		assert_true(reserved == kept || own != MAP_FAILED);
		for (uint64_t at = 0; at < MIN(reserved - kept, 4 * MIB); at += 4096)
			assert_int_equal(own[at], 0);
		done(shared);
	}
}

/* As after a jump out of a signal handler in the middle. */
static void a_region_that_is_being_opened_for_ever_is_kept(void **state)
{
	struct live_header *head = fresh(64 * MIB, 64 * MIB);
	uint64_t reserved = memory.reserved_bytes[LIVE_NODES];

	(void)state;
	memory.opening[LIVE_NODES] = 1;
	memory_shrink(64 * MIB);
	assert_int_equal(memory.kept_bytes[LIVE_NODES], reserved);
	assert_int_equal(head->region[LIVE_NODES].bytes, reserved);
	assert_true(memory.kept_bytes[LIVE_SITES] < memory.reserved_bytes[LIVE_SITES]);
	memory.opening[LIVE_NODES] = 0;
	memory_shrink(64 * MIB);
	assert_true(memory.kept_bytes[LIVE_NODES] < reserved);
	assert_true(memory_open(LIVE_NODES, 4096));
	assert_int_equal(memory.opening[LIVE_NODES], 0);
	done(head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_opened_and_kept_are_whole_pages_of_any_size),
		cmocka_unit_test(a_budget_is_kept_to_the_page),
		cmocka_unit_test(a_third_of_the_heap_is_had_without_the_collectors_word),
		cmocka_unit_test(the_limit_bounds_that_share),
		cmocka_unit_test(all_is_released_but_what_was_given_back),
		cmocka_unit_test(what_is_opened_while_a_region_shrinks_stays),
		cmocka_unit_test(a_region_that_is_being_opened_for_ever_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
