/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Live numbers of a program that goes on while they are read. Its threads take a step after each cache line that the collector
 * reads, so that all that can happen in between happens, and the truth is known at every step. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/profile/live_profile.h"
#include "format/live/live_marks.h"
#include "live_made_file.h"
#include "unit.h"
#include "util/cleanup.h"

#define TOTAL LIVE_TOTAL_MIN

enum { LINE = 64, THREADS_MAX = 8, SITES = 4, BLOCKS_MAX = 64, SEEDS = 100, STEPS_MAX = 1 << 18 };

struct truth {
	int64_t bytes, blocks;
	int64_t site_bytes[SITES];
};

static struct program {
	int fd;
	struct made made;
	char *memory;
	unsigned seed;
	uint32_t threads, running; /* `running` of them allocate and free */
	uint32_t counters[THREADS_MAX][SITES], sites[SITES];
	struct {
		uint32_t site;
		uint64_t bytes;
	} blocks[BLOCKS_MAX];
	size_t block_count;
	bool hands_over; /* each block is freed at once, by the last thread */
	bool makes_threads, reads;
	/* at each step of the reading */
	struct truth *steps, now;
	size_t step_count;
} program;

static unsigned a_number_below(unsigned limit)
{
	program.seed = program.seed * 1103515245 + 12345;
	return (program.seed >> 16) % limit;
}

static void add_thread(void)
{
	uint32_t thread = program.threads;

	if (thread >= THREADS_MAX)
		return;
	for (size_t i = 0; i < SITES; i++) {
		program.counters[thread][i] = made_append(&program.made, LIVE_SITE_COUNTERS, 1);
		*made_counters(&program.made, program.counters[thread][i]) =
			(struct live_site_counters){ .site = program.sites[i], .thread = thread };
	}
	if (thread > 0)
		made_append(&program.made, LIVE_SLOTS, 1);
	program.threads++;
}

static void allocate(uint32_t thread)
{
	uint32_t site = a_number_below(SITES);
	uint64_t bytes = 1 + a_number_below(1000);
	struct live_site_counters *counters =
		made_counters(&program.made, program.counters[thread][site]);
	struct live_slot *slot = made_slot(&program.made, thread);

	counters->calls++;
	counters->bytes += bytes;
	slot->calls++;
	slot->bytes += bytes;
	program.blocks[program.block_count].site = site;
	program.blocks[program.block_count++].bytes = bytes;
	program.now.bytes += (int64_t)bytes;
	program.now.site_bytes[site] += (int64_t)bytes;
	program.now.blocks++;
}

/* Any block: it may be another thread's. */
static void release(uint32_t thread)
{
	size_t i = a_number_below((unsigned)program.block_count);
	uint32_t site = program.blocks[i].site;
	uint64_t bytes = program.blocks[i].bytes;
	struct live_site_counters *counters =
		made_counters(&program.made, program.counters[thread][site]);
	struct live_slot *slot = made_slot(&program.made, thread);

	counters->frees++;
	counters->freed_bytes += bytes;
	slot->frees++;
	slot->freed_bytes += bytes;
	program.blocks[i] = program.blocks[--program.block_count];
	program.now.bytes -= (int64_t)bytes;
	program.now.site_bytes[site] -= (int64_t)bytes;
	program.now.blocks--;
}

static void step(void)
{
	if (program.makes_threads && a_number_below(30) == 0)
		add_thread();
	uint32_t running = MIN(program.running, program.threads), thread = a_number_below(running);
	bool allocates = program.hands_over ? program.step_count % 2 : a_number_below(2);

	if (program.hands_over)
		thread = allocates ? 0 : running - 1;
	if (program.block_count == 0 || (program.block_count < BLOCKS_MAX && allocates))
		allocate(thread);
	else
		release(thread);
	assert_true(program.step_count < STEPS_MAX);
	program.steps[program.step_count++] = program.now;
}

static void some_steps(void)
{
	for (unsigned i = a_number_below(4); program.running && i > 0; i--)
		step();
}

/* In place of libc's. */
ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
	if (!program.reads || fd != program.fd || at >= (off_t)TOTAL)
		return syscall(SYS_pread64, fd, to, bytes, at);
	for (size_t done = 0; done < bytes;) {
		size_t line = MIN(LINE - (size_t)at % LINE, bytes - done);

		memcpy((char *)to + done, program.memory + at, line);
		at += (off_t)line;
		done += line;
		some_steps();
	}
	return (ssize_t)bytes;
}

static void start(struct live_profile *profile, unsigned seed, uint32_t threads, uint32_t running)
{
	struct error error = { 0 };

	program = (struct program){ .fd = memfd_create("profile", MFD_CLOEXEC | MFD_ALLOW_SEALING),
				    .seed = seed,
				    .running = MAX(running, 1u),
				    .steps = calloc(STEPS_MAX, sizeof(struct truth)) };
	assert_true(program.fd >= 0 && program.steps);
	struct live_header *head = made_in_file(&program.made, program.fd, TOTAL);

	program.memory = (char *)head;
	for (size_t i = 0; i < SITES; i++)
		program.sites[i] = made_site(&program.made, 1, LIVE_KIND_HEAP);
	for (uint32_t i = 0; i < threads; i++)
		add_thread();
	for (int i = 0; i < LIVE_REGIONS; i++)
		head->opened[i] = MIN(head->region[i].bytes, 2ull * LIVE_PAGE);
	for (int i = 0; i < 100; i++)
		step();
	assert_int_equal(fcntl(program.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 0);
	program.running = running;
	program.hands_over = seed % 2;
	/* It owns the descriptor. */
	assert_int_equal(live_profile_take(profile, program.fd, &error), 0);
	program.step_count = 0;
	program.steps[program.step_count++] = program.now;
	program.reads = true;
}

static void end(struct live_profile *profile)
{
	program.reads = false;
	live_profile_release(profile);
	munmap(program.memory, TOTAL);
	free(program.steps);
}

/* From now on. Those allocate, too. */
static void start_threads(void)
{
	program.makes_threads = true;
	program.running = THREADS_MAX;
}

static bool is_within(uint64_t value, uint64_t bound, int64_t truth)
{
	return magnitude((int64_t)value - truth) <= bound;
}

static void check_bytes(uint64_t bytes, uint64_t bound)
{
	for (size_t i = 0; i < program.step_count; i++)
		if (is_within(bytes, bound, program.steps[i].bytes))
			return;
	fail_msg("%llu bytes within %llu were never live", (unsigned long long)bytes,
		 (unsigned long long)bound);
}

static void check(struct live_now live)
{
	check_bytes(live.bytes, live.bytes_bound);
	for (size_t i = 0; i < program.step_count; i++)
		if (is_within(live.blocks, live.blocks_bound, program.steps[i].blocks))
			return;
	fail_msg("%llu blocks within %llu were never live", (unsigned long long)live.blocks,
		 (unsigned long long)live.blocks_bound);
}

/* A number of threads, and of those that allocate. */
static const struct {
	uint32_t threads, running;
} crowds[] = { { 1, 0 }, { 1, 1 }, { 4, 0 }, { 4, 1 }, { 4, 2 }, { 4, 4 }, { 8, 8 } };

static struct live_totals totals_of(unsigned seed, size_t crowd, bool makes_threads, bool *ret_read)
{
	struct live_profile profile = LIVE_PROFILE_INIT;
	struct live_totals totals = { 0 };

	start(&profile, seed, crowds[crowd].threads, crowds[crowd].running);
	if (makes_threads)
		start_threads();
	*ret_read = live_profile_read_totals(&profile, &totals);
	if (*ret_read)
		check(totals.live);
	end(&profile);
	return totals;
}

static void totals_were_true_at_a_moment_of_the_reading_within_their_bound(void **state)
{
	bool is_read;

	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++)
		for (size_t i = 0; i < ARRAY_SIZE(crowds); i++) {
			(void)totals_of(seed, i, false, &is_read);
			assert_true(is_read);
		}
}

static void totals_are_exact_if_one_thread_allocates(void **state)
{
	bool is_read;

	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++)
		for (size_t i = 0; i < ARRAY_SIZE(crowds); i++) {
			struct live_totals totals = totals_of(seed, i, false, &is_read);

			if (crowds[i].running > 1)
				continue;
			assert_int_equal(totals.live.bytes_bound, 0);
			assert_int_equal(totals.live.blocks_bound, 0);
		}
}

/* If they come too fast, nothing is read. */
static void totals_are_true_while_threads_start(void **state)
{
	size_t read = 0;
	bool is_read;

	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++, read += is_read)
		(void)totals_of(seed, 3 + seed % 3, true, &is_read);
	assert_true(read > SEEDS / 2);
}

static void check_sites(const struct live_sites *sites)
{
	for (size_t site = 0; site < SITES; site++) {
		const struct snapshot_site *live = &sites->live[program.sites[site]];
		uint64_t bound = live_site_bound(sites, program.sites[site]).bytes;
		bool was_true = false;

		for (size_t i = 0; i < program.step_count && !was_true; i++)
			was_true = is_within((uint64_t)live->bytes, bound,
					     program.steps[i].site_bytes[site]);
		assert_true(was_true);
	}
}

static void check_copy(unsigned seed, size_t crowd, bool makes_threads)
{
	struct live_profile profile = LIVE_PROFILE_INIT;
	AUTO(live_sites_release) struct live_sites sites = { 0 };
	struct process_rows rows;
	struct error error = { 0 };

	start(&profile, seed, crowds[crowd].threads, crowds[crowd].running);
	if (makes_threads)
		start_threads();
	assert_int_equal(live_profile_load(&profile, PROFILE_COPY_COUNTERS, false, &error), 0);
	assert_int_equal(live_read_sites(profile.memory, profile.bytes, &profile.moves, &sites), 0);
	check(live_sum_heap(profile.memory, profile.bytes, &sites));
	check_sites(&sites);
	assert_int_equal(live_read_rows(profile.memory, profile.bytes, &profile.moves,
					LIVE_MODE_EXACT, &rows, NULL),
			 0);
	check_bytes(rows.process.bytes - rows.process.freed_bytes, rows.process.live_bound_bytes);
	if (crowds[crowd].running == 0 && !makes_threads)
		assert_int_equal(rows.process.live_bound_bytes, 0);
	process_rows_release(&rows);
	end(&profile);
}

static void numbers_of_a_copy_were_true_while_it_was_made_within_their_bound(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SEEDS / 4; seed++)
		for (size_t i = 0; i < ARRAY_SIZE(crowds); i++)
			check_copy(seed, i, seed % 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_were_true_at_a_moment_of_the_reading_within_their_bound),
		cmocka_unit_test(totals_are_exact_if_one_thread_allocates),
		cmocka_unit_test(totals_are_true_while_threads_start),
		cmocka_unit_test(numbers_of_a_copy_were_true_while_it_was_made_within_their_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
