/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The state at the peak without a trace: random histories of one thread through the recorder's accounting, read by the
 * reader that reports use, against brute force that keeps a copy of every site at each new maximum. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "format/live_read.h"
#include "recorder/account.h"
#include "unit.h"

enum {
	SITES_MAX = 12,
	BLOCKS_MAX = 64,
	TOTAL_BYTES = 64 << 20,
	HISTORIES = 100000,
	FIRST = LIVE_SITE_FIRST
};

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct live_header *head;
static struct slot slot;

static int make_profile(void **state)
{
	(void)state;
	head = mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	head->granule_shift = 5;
	head->depth_limit = 16;
	head->ready = 1;
	memory_append(LIVE_FRAMES, 4, sizeof(uint64_t));
	memory_append(LIVE_NODES, 4, sizeof(struct live_node));
	memory_append(LIVE_SITES, FIRST + SITES_MAX, sizeof(struct live_site));
	memory_append(LIVE_RECORDS, FIRST + SITES_MAX, sizeof(struct live_record));
	memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));
	slot.live = memory_slot(0);
	return 0;
}

static void forget(void)
{
	memset(memory.region[LIVE_RECORDS], 0, (FIRST + SITES_MAX) * sizeof(struct live_record));
	memset(memory_slot(0), 0, sizeof(struct live_slot));
	memset(memory.region[LIVE_POOL], 0, head->opened[LIVE_POOL]);
	head->used[LIVE_POOL] = 1;
	head->peak = (struct live_peak){ .state = 1 << 1 | 1 };
	for (uint32_t i = 0; i < SITES_MAX; i++)
		memory_record(FIRST + i)->site = FIRST + i;
}

/* What each site holds, and what it held when the total was largest. */
struct truth {
	int64_t live[SITES_MAX], blocks[SITES_MAX], peak_live[SITES_MAX], peak_blocks[SITES_MAX];
	int64_t total, peak;
	bool at_top; /* nothing was freed since the maximum: what is allocated with 0 bytes still belongs to it */
};

static void truth_add(struct truth *truth, unsigned site, int64_t bytes, int64_t blocks)
{
	truth->live[site] += bytes;
	truth->blocks[site] += blocks;
	truth->total += bytes;
	truth->at_top = blocks > 0 && (truth->at_top || truth->total > truth->peak);
	if (truth->at_top) {
		truth->peak = truth->total;
		memcpy(truth->peak_live, truth->live, sizeof truth->live);
		memcpy(truth->peak_blocks, truth->blocks, sizeof truth->blocks);
	}
}

struct block_made {
	unsigned site;
	uint64_t size;
};

static void take(struct truth *truth, struct block_made *block, unsigned site, uint64_t size)
{
	*block = (struct block_made){ site, size };
	account_alloc(&slot, memory_record(FIRST + site), size, 0);
	truth_add(truth, site, (int64_t)size, 1);
}

static void drop(struct truth *truth, const struct block_made *block)
{
	account_free(&slot, memory_record(FIRST + block->site), block->size, 0, 0, false);
	truth_add(truth, block->site, -(int64_t)block->size, -1);
}

/* Compares what a report would say now. */
static void compare(const struct truth *truth)
{
	struct process_rows rows;
	struct format_error error;
	int64_t bytes[SITES_MAX] = { 0 }, blocks[SITES_MAX] = { 0 };

	assert_int_equal(live_read_rows(head, TOTAL_BYTES, &rows, &error), 0);
	for (size_t i = 0; i < rows.cell_count; i++) {
		uint32_t site = rows.cells[i].site - FIRST;

		assert_true(site < SITES_MAX);
		bytes[site] += rows.cells[i].peak_bytes;
		blocks[site] += rows.cells[i].peak_blocks;
	}
	assert_int_equal(rows.process.peak_bytes, truth->peak);
	assert_int_equal(rows.process.peak_bound_bytes, 0);
	assert_memory_equal(bytes, truth->peak_live, sizeof bytes);
	assert_memory_equal(blocks, truth->peak_blocks, sizeof blocks);
	process_rows_release(&rows);
}

static void run_history(uint64_t *seed)
{
	struct truth truth = { .at_top = true };
	struct block_made block[BLOCKS_MAX];
	unsigned used = 0, sites = 1 + (unsigned)(unit_random(seed) % SITES_MAX);
	unsigned steps = 1 + (unsigned)(unit_random(seed) % 120),
		 look = (unsigned)(unit_random(seed) % steps);
	unsigned bias = 0;
	uint64_t largest = 1ull << unit_random(seed) % 14;

	forget();
	for (unsigned i = 0; i < steps; i++) {
		if (i % 16 == 0)
			bias = 20 + (unsigned)(unit_random(seed) % 60);
		unsigned site = (unsigned)(unit_random(seed) % sites);
		uint64_t size = unit_random(seed) % largest;
		unsigned which = used ? (unsigned)(unit_random(seed) % used) : 0;

		if (used == 0 || (used < BLOCKS_MAX && unit_random(seed) % 100 < bias)) {
			take(&truth, &block[used++], site, size);
		} else if (unit_random(seed) % 4 ==
			   0) { /* realloc: the old one ends before the new one counts */
			drop(&truth, &block[which]);
			take(&truth, &block[which], site, size);
		} else {
			drop(&truth, &block[which]);
			block[which] = block[--used];
		}
		if (i == look)
			compare(&truth);
	}
	compare(&truth);
}

static void peak_of_every_site_equals_brute_force(void **state)
{
	uint64_t seed = 88172645463325252u;

	(void)state;
	for (int i = 0; i < HISTORIES; i++)
		run_history(&seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(peak_of_every_site_equals_brute_force, make_profile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
