/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* The state at the peak without a trace: random histories through the recorder's accounting, read by the reader that
 * reports use, against brute force that keeps a copy of every site at each new maximum. One slot: to the byte. Several:
 * within the bound that is told, and without writing what they share while they are below the peak. Threads (H3): the same
 * although nobody waits for anybody. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "format/live/live_read.h"
#include "recorder/hooks/free.h"
#include "unit.h"

enum {
	SITES_MAX = 12,
	BLOCKS_MAX = 64,
	TOTAL_BYTES = 64 << 20,
	HISTORIES = 100000 / UNIT_FEWER,
	FIRST = LIVE_SITE_FIRST,
	SLOTS_MAX = 80,
};

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct live_header *head;
static struct slot slot, many[SLOTS_MAX];

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
	memory_append(LIVE_SITE_COUNTERS, FIRST + SLOTS_MAX * SITES_MAX,
		      sizeof(struct live_site_counters));
	memory_append(LIVE_SLOTS, SLOTS_MAX, sizeof(struct live_slot));
	slot.live = memory_slot(0);
	return 0;
}

static void forget(void)
{
	memset(memory.region[LIVE_SITE_COUNTERS], 0,
	       (FIRST + SLOTS_MAX * SITES_MAX) * sizeof(struct live_site_counters));
	memset(memory.region[LIVE_SLOTS], 0, SLOTS_MAX * sizeof(struct live_slot));
	memset(memory.region[LIVE_POOL], 0, head->opened[LIVE_POOL]);
	head->used[LIVE_POOL] = 1;
	head->peak = (struct live_peak){ .state = 1 << 1 | 1 };
	for (uint32_t i = 0; i < SLOTS_MAX * SITES_MAX; i++) {
		memory_counters(FIRST + i)->site = FIRST + i % SITES_MAX;
		memory_counters(FIRST + i)->thread = i / SITES_MAX;
	}
	account_reset();
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
	account_alloc(&slot, memory_counters(FIRST + site), size, 0, 1);
	truth_add(truth, site, (int64_t)size, 1);
}

static void drop(struct truth *truth, const struct block_made *block)
{
	account_free(&slot, memory_counters(FIRST + block->site), block->size, 0, 0, false, 1);
	truth_add(truth, block->site, -(int64_t)block->size, -1);
}

/* Compares what a report would say now. */
static void compare(const struct truth *truth)
{
	struct process_rows rows;
	struct format_error error;
	int64_t bytes[SITES_MAX] = { 0 }, blocks[SITES_MAX] = { 0 };

	assert_int_equal(live_read_rows(head, TOTAL_BYTES, NULL, LIVE_MODE_EXACT, &rows, &error),
			 0);
	for (size_t i = 0; i < rows.site_counters_count; i++) {
		uint32_t site = rows.site_counters[i].site - FIRST;

		assert_true(site < SITES_MAX);
		bytes[site] += rows.site_counters[i].peak_bytes;
		blocks[site] += rows.site_counters[i].peak_blocks;
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
	account_join(&slot);
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

/* Slots take turns as threads do that the kernel switches between operations; now and then one frees what another took.
 */
struct several {
	uint64_t seed;
	unsigned slots, used;
	struct owned {
		struct block_made made;
		unsigned slot;
	} block[4096];
	int64_t total, peak;
	uint64_t shared_writes; /* operations after which what the slots share is not what it was */
};

static struct live_site_counters *counters_of(unsigned in_slot, unsigned site)
{
	return memory_counters(FIRST + in_slot * SITES_MAX + site);
}

static void several_take(struct several *s, unsigned which, unsigned in_slot, uint64_t size)
{
	struct live_peak before = head->peak;
	unsigned site = (unsigned)(unit_random(&s->seed) % SITES_MAX);

	account_alloc(&many[in_slot], counters_of(in_slot, site), size, 0, 1);
	s->block[which] = (struct owned){ { site, size }, in_slot };
	s->total += (int64_t)size;
	s->peak = MAX(s->peak, s->total);
	s->shared_writes += memcmp(&before, &head->peak, sizeof before) != 0;
}

static void several_drop(struct several *s, unsigned which, unsigned by)
{
	struct live_peak before = head->peak;
	const struct block_made *made = &s->block[which].made;

	account_free(&many[by], counters_of(by, made->site), made->size, 0, 0, false, 1);
	s->total -= (int64_t)made->size;
	s->shared_writes += memcmp(&before, &head->peak, sizeof before) != 0;
}

static void several_begin(struct several *s, unsigned slots, uint64_t seed)
{
	forget();
	*s = (struct several){ .seed = seed, .slots = slots };
	for (unsigned i = 0; i < slots; i++) {
		many[i] = (struct slot){ .id = i, .live = memory_slot(i) };
		account_join(&many[i]);
	}
}

static void several_compare(const struct several *s)
{
	struct process_rows rows;
	struct format_error error;

	assert_int_equal(live_read_rows(head, TOTAL_BYTES, NULL, LIVE_MODE_EXACT, &rows, &error),
			 0);
	uint64_t bound = rows.process.peak_bound_bytes;

	if (control.exact_peak)
		assert_int_equal(bound, 0);
	else
		assert_in_range(bound, 1, MAX((uint64_t)s->peak / 100, 2048ull * s->slots));
	assert_in_range(rows.process.peak_bytes, (uint64_t)s->peak - MIN(bound, (uint64_t)s->peak),
			(uint64_t)s->peak + bound);
	process_rows_release(&rows);
}

static void several_run(unsigned slots, uint64_t seed)
{
	static struct several s;
	uint64_t largest = 1ull << (4 + seed % 14);
	unsigned bias = 50;

	several_begin(&s, slots, seed);
	for (unsigned i = 0; i < 3000; i++) {
		if (i % 64 == 0) /* grows for a while, shrinks for a while */
			bias = 20 + (unsigned)(unit_random(&s.seed) % 60);
		unsigned in_slot = (unsigned)(unit_random(&s.seed) % slots);
		unsigned which = s.used ? (unsigned)(unit_random(&s.seed) % s.used) : 0;

		if (s.used == 0 || unit_random(&s.seed) % 100 < bias) {
			several_take(&s, s.used++, in_slot, unit_random(&s.seed) % largest);
		} else {
			several_drop(&s, which,
				     unit_random(&s.seed) % 10 ? s.block[which].slot : in_slot);
			s.block[which] = s.block[--s.used];
		}
		if (i % 500 == 499)
			several_compare(&s);
	}
	several_compare(&s);
}

static void peak_of_several_slots_is_within_its_bound(void **state)
{
	static const unsigned slots[] = { 2, 3, 4, 7, 16, SLOTS_MAX };

	(void)state;
	for (unsigned exact = 0; exact < 2; exact++) {
		control.exact_peak = exact;
		for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
			for (uint64_t seed = 1; seed <= 60; seed++)
				several_run(slots[i], seed * 0x9e3779b97f4a7c15u);
		}
	}
	control.exact_peak = 0;
}

/* Eight blocks of 16 to 512 bytes in each slot, the oldest replaced by a new one: the peak is soon reached, and after
 * that hardly one operation in a hundred writes what the slots share. */
static void slots_that_keep_to_themselves_share_no_writes(void **state)
{
	enum { RING = 8, WARM = 20000, STEPS = 200000 };
	static struct several s;

	(void)state;
	for (unsigned slots = 2; slots <= 16; slots *= 2) {
		uint64_t before = 0;

		several_begin(&s, slots, 42);
		for (unsigned i = 0; i < WARM + STEPS; i++) {
			unsigned which = i % (slots * RING), in_slot = i % slots;

			if (i >= slots * RING)
				several_drop(&s, which, in_slot);
			several_take(&s, which, in_slot, 16 + unit_random(&s.seed) % 497);
			if (i == WARM)
				before = s.shared_writes;
		}
		several_compare(&s);
		assert_in_range(s.shared_writes - before, 0, 2 * STEPS / 100);
	}
}

/* Threads that grow together, wait for each other, and shrink: at each barrier the sum is known, and the largest of them
 * is neither the last nor any thread's own largest. On the way each frees some of what it has just taken. */
enum { PHASES = 10, HELD_MAX = 600, SIZE_MAX_HERE = 400 };

static struct crowd {
	unsigned threads;
	pthread_barrier_t step;
	int64_t total, peak;
} crowd;

static unsigned wanted(unsigned thread, unsigned phase)
{
	static const unsigned least[PHASES] = { 20, 150, 40, 300, 500, 100, 470, 10, 490, 0 };

	return least[phase] + (thread * 37 + phase * 11) % 60;
}

static void crowd_take(unsigned me, struct block_made *block, uint64_t *seed)
{
	*block = (struct block_made){ (unsigned)(unit_random(seed) % SITES_MAX),
				      1 + unit_random(seed) % SIZE_MAX_HERE };
	account_alloc(&many[me], counters_of(me, block->site), block->size, 0, 1);
	__atomic_fetch_add(&crowd.total, (int64_t)block->size, __ATOMIC_RELAXED);
}

static void crowd_drop(unsigned me, const struct block_made *block)
{
	account_free(&many[me], counters_of(me, block->site), block->size, 0, 0, false, 1);
	__atomic_fetch_sub(&crowd.total, (int64_t)block->size, __ATOMIC_RELAXED);
}

static void *crowd_body(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, have = 0;
	uint64_t seed = 1234567 + me;
	struct block_made block[HELD_MAX] = { { 0 } };

	account_join(&many[me]);
	for (unsigned phase = 0; phase < PHASES; phase++) {
		pthread_barrier_wait(&crowd.step);
		while (have < wanted(me, phase)) {
			crowd_take(me, &block[have++], &seed);
			if (have % 8 == 0)
				crowd_drop(me, &block[--have]);
			if (have % 8 == 7)
				crowd_take(me, &block[have++], &seed);
		}
		pthread_barrier_wait(&crowd.step);
		if (me == 0)
			crowd.peak = MAX(crowd.peak, crowd.total);
		pthread_barrier_wait(&crowd.step);
		while (have > (phase + 1 < PHASES ? wanted(me, phase + 1) : 0))
			crowd_drop(me, &block[--have]);
	}
	return NULL;
}

static void crowd_run(unsigned threads)
{
	static pthread_t thread[SLOTS_MAX];
	struct process_rows rows;
	struct format_error error;

	forget();
	crowd = (struct crowd){ .threads = threads };
	pthread_barrier_init(&crowd.step, NULL, threads);
	for (uintptr_t i = 0; i < threads; i++) {
		many[i] = (struct slot){ .id = (uint32_t)i, .live = memory_slot((uint32_t)i) };
		assert_int_equal(pthread_create(&thread[i], NULL, crowd_body, (void *)i), 0);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&crowd.step);
	assert_int_equal(crowd.total, 0);
	assert_int_equal(live_read_rows(head, TOTAL_BYTES, NULL, LIVE_MODE_EXACT, &rows, &error),
			 0);
	uint64_t bound = rows.process.peak_bound_bytes, peak = (uint64_t)crowd.peak;

	assert_in_range(bound, 1, MAX(peak / 100, 2048ull * threads));
	assert_in_range(rows.process.peak_bytes, peak - bound, peak + bound);
	assert_in_range(head->peak.peak_bytes, peak - bound, peak + bound);
	process_rows_release(&rows);
}

static void peak_of_threads_is_within_its_bound(void **state)
{
	static const unsigned threads[] = { 2, 3, 8, 40, SLOTS_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		for (int round = 0; round < 10; round++)
			crowd_run(threads[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(peak_of_every_site_equals_brute_force, make_profile),
		cmocka_unit_test_setup(peak_of_several_slots_is_within_its_bound, make_profile),
		cmocka_unit_test_setup(slots_that_keep_to_themselves_share_no_writes, make_profile),
		cmocka_unit_test_setup(peak_of_threads_is_within_its_bound, make_profile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
