/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The tables of nodes and sites grow without holding their lock for the whole of it. */
#include <stdbool.h>
#include <sys/mman.h>

struct lock;
static void check_lock(bool taken);
#define LOCK_CHECK(lock, taken) check_lock(taken)

/* clang-format off: the check comes first */
#include "recorder/lock.c"
#include "recorder/counters/sites.c"
/* clang-format on */

#include "unit.h"

enum { TOTAL_BYTES = 256 << 20, SLOTS = 2, STACKS = 5000, DEPTH = 4, MOST_WORDS = 1000 };

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct slot slots[SLOTS];
static uint64_t scratch_seen, words_before, tables;

/* Words that are not 0 in all tables. */
static uint64_t words_in_scratch(void)
{
	const uint64_t *word = (const void *)memory.region[LIVE_SCRATCH];
	uint64_t count = 0;

	for (uint64_t i = 0; i < scratch_seen / sizeof *word; i++)
		count += word[i] != 0;
	return count;
}

/* Looks only after a table was allocated. */
static void check_lock(bool taken)
{
	if (taken && scratch_seen != memory_used(LIVE_SCRATCH)) {
		scratch_seen = memory_used(LIVE_SCRATCH);
		words_before = words_in_scratch();
		tables++;
	} else if (!taken && words_before != 0) {
		assert_in_range(words_in_scratch(), words_before, words_before + MOST_WORDS);
		words_before = 0;
	}
}

static int make_profile(void **state)
{
	struct live_header *head = mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	head->depth_limit = control.depth_limit;
	return sites_start() ? 0 : -1;
}

static void begin_slot(uint32_t i)
{
	uint64_t id = memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));

	slots[i] = (struct slot){ .id = (uint32_t)id, .live = memory_slot((uint32_t)id) };
	slots[i].site_counters = table_new(TABLE_FIRST);
	slots[i].walk =
		walk_place(memory_scratch(walk_bytes(control.depth_limit)), control.depth_limit);
}

/* Stacks have frames of their own, so that no node follows its parent by chance only. */
static uint32_t site_of(uint32_t slot, uint32_t stack)
{
	uint32_t node[DEPTH] = { 0 }, frame[DEPTH];
	struct site_chain chain = {
		.frame = frame, .node = node, .count = DEPTH, .mark = LIVE_FRAME_STACK_OFF
	};

	for (uint32_t i = 0; i < DEPTH; i++)
		frame[i] = 100 + (i == 0 ? stack % 7 : stack * DEPTH + i);
	uint32_t counters = sites_counters_of_chain(&slots[slot], &chain,
						    1 + stack * UINT64_C(0x9e3779b97f4a7c15),
						    origin_of(LIVE_KIND_HEAP));

	return memory_counters(counters)->site;
}

static void tables_grow_without_the_lock(void **state)
{
	static uint32_t site[STACKS];

	(void)state;
	begin_slot(0);
	for (uint32_t i = 0; i < STACKS; i++)
		site[i] = site_of(0, i);
	uint64_t nodes_made = memory_used(LIVE_NODES), sites_made = memory_used(LIVE_SITES);

	assert_true(tables > 5);
	/* Another slot finds them all. */
	begin_slot(1);
	for (uint32_t i = 0; i < STACKS; i++)
		assert_int_equal(site_of(1, i), site[i]);
	assert_int_equal(memory_used(LIVE_NODES), nodes_made);
	assert_int_equal(memory_used(LIVE_SITES), sites_made);
	assert_true(table_check(&nodes));
	assert_true(table_check(&sites));
	for (uint32_t i = 0; i < STACKS; i++)
		assert_int_not_equal(site_of(i % SLOTS, STACKS + i), 0);
	for (uint32_t i = LIVE_FRAME_STACK_OFF + 1; i < memory_used(LIVE_NODES); i++)
		assert_int_equal(node_find(memory_node(i)->parent, memory_node(i)->frame), i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_grow_without_the_lock),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
