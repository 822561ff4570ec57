/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base m */
/* Sampling, without the hooks: integers against libm; the mode with a thread of its own against what was really allocated.
 * Seeds are fixed: the same every time. HEAPGAUGE_LONG=1: a thousand runs of each size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/confidence.h"
#include "recorder/sampling/mode.h"
#include "recorder/process/settings.h"
#include "unit.h"

enum { TOTAL_BYTES = 64 << 20, INTERVAL = 512 << 10 };

static struct live_control control = { .budget_bytes = UINT64_MAX,
				       .depth_limit = 16,
				       .mode = LIVE_MODE_SAMPLE,
				       .interval = INTERVAL };

static struct live_slot live;
static struct slot slot = { .live = &live };

static int make_profile(void **state)
{
	struct live_header *head =
		mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0 || !countdown_start())
		return -1;
	memory_use(head, &control);
	thread_state.slot = &slot;
	mode_start();
	return 0;
}

static void weights_are_those_of_libm(void **state)
{
	(void)state;
	for (uint64_t interval = SAMPLE_INTERVAL_MIN; interval <= SAMPLE_INTERVAL_MAX;
	     interval = interval * 3 / 2) {
		for (uint64_t size = 1; size < 2 * interval; size += size / 7 + 1) {
			double p = size < interval ? -expm1(-(double)size / (double)interval) : 1;
			double weight = (double)sample_weight(size, interval) / 4294967296.0;

			assert_true(fabs(weight * p - 1) < 2e-6);
		}
	}
	assert_int_equal(sample_weight(100, 0), UINT64_C(1) << 32);
}

static void rounding_keeps_the_mean(void **state)
{
	uint64_t weight = (UINT64_C(7) << 32) + (UINT64_C(1) << 30), random = 12345, sum = 0;

	(void)state;
	for (uintptr_t i = 0; i < 100000; i++) {
		uint32_t rounded = sample_round(&random, weight);

		assert_true(rounded == 7 || rounded == 8);
		sum += rounded;
	}
	assert_true(sum > 724000 && sum < 726000);
}

/* The share of draws below x is 1 - exp(-x / interval), within 4 standard errors at each of many x. */
static void draws_are_exponential(void **state)
{
	enum { DRAWS = 200000, POINTS = 24 };
	uint64_t random = 12345, below[POINTS] = { 0 };

	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		int64_t drawn = sample_draw(&random, INTERVAL);

		assert_true(drawn >= 0);
		for (int point = 0; point < POINTS; point++)
			below[point] += drawn < (INTERVAL / 16) << (point / 3) << 1 >> (point % 3);
	}
	for (int point = 0; point < POINTS; point++) {
		double x = (double)((INTERVAL / 16) << (point / 3) << 1 >> (point % 3));
		double p = -expm1(-x / INTERVAL);

		assert_true(fabs((double)below[point] - DRAWS * p) <
			    4 * sqrt(DRAWS * p * (1 - p)) + 1);
	}
}

/* One run: `blocks` of a size, every other one freed. Estimates and whether their intervals cover the truth. */
struct covered {
	int total, live;
	double sum; /* of the estimates of all bytes */
};

static void run(uint64_t size, uint64_t blocks, struct covered *ret)
{
	struct live_samples samples = { 0 };
	double bytes = 0, freed = 0, unit = 1 << LIVE_VARIANCE_SHIFT;
	const struct live_countdown *countdown = &thread_state.slot->live->countdown;
	uint64_t looked_at = 0, calls_before = countdown->calls,
		 bytes_before = countdown->allotted - countdown->left;

	countdown_none();
	thread_state.interval = 0;
	for (uint64_t i = 0; i < blocks; i++) {
		bool passes = countdown_passes(size);
		uint64_t interval = passes ? MODE_SKIP : mode_decide(size, NULL);
		uint64_t weight = sample_weight(size, interval);

		looked_at += !passes;
		if (interval == MODE_SKIP)
			continue;
		assert_int_equal(interval, INTERVAL);
		uint32_t rounded = mode_round_weight(weight);

		bytes += (double)(size * rounded);
		sample_add_allocation(&samples, size, weight);
		if (i % 2) {
			freed += (double)(size * rounded);
			sample_add_free(&samples, size, weight);
		}
	}
	/* C4: all are counted, to the byte. */
	countdown_add(thread_state.slot, looked_at, looked_at * size);
	assert_int_equal(countdown->calls - calls_before, blocks);
	assert_int_equal(countdown->allotted - countdown->left - bytes_before, blocks * size);
	assert_int_equal(countdown->changes % 2, 0);
	double error =
		confidence_factor(samples.count) * sqrt((double)samples.bytes_variance * unit);
	double live_error = confidence_factor(samples.count - samples.freed_count) *
			    sqrt((double)(samples.bytes_variance - samples.freed_variance) * unit);

	ret->total += fabs(bytes - (double)(size * blocks)) <= error;
	ret->live += fabs(bytes - freed - (double)(size * ((blocks + 1) / 2))) <= live_error;
	ret->sum += bytes;
}

/* 60 samples are expected of each, 30 of what is live. */
static void intervals_cover_the_truth(void **state)
{
	static const uint64_t sizes[] = { 16,	  48,	  1000,	  4096,	   65536,
					  200000, 400000, 600000, 4 << 20, 64 << 20 };
	const char *is_long = getenv("HEAPGAUGE_LONG");
	int runs = is_long && strcmp(is_long, "1") == 0 ? 1000 : 150;

	(void)state;
	thread_state.random = 4711;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		double p = sizes[i] < INTERVAL ? -expm1(-(double)sizes[i] / INTERVAL) : 1;
		uint64_t blocks = (uint64_t)(60 / p) & ~1ull;
		double truth = (double)(sizes[i] * blocks);
		struct covered covered = { 0 };

		for (int k = 0; k < runs; k++)
			run(sizes[i], blocks, &covered);
		printf("%8llu B: mean %.3f of the truth, covered %.1f %% (live %.1f %%)\n",
		       (unsigned long long)sizes[i], covered.sum / runs / truth,
		       100.0 * covered.total / runs, 100.0 * covered.live / runs);
		/* Without bias: four standard errors of the mean of all runs. */
		assert_true(fabs(covered.sum / runs / truth - 1) < 4 / sqrt(60.0 * runs));
		assert_true(100 * covered.total >= (runs == 1000 ? 93 : 89) * runs);
		assert_true(100 * covered.live >= (runs == 1000 ? 93 : 89) * runs);
		if (sizes[i] < INTERVAL && runs == 1000)
			assert_true(100 * covered.total <= 97 * runs);
	}
}

/* What is allocated between two turns of the mode is judged by the setting of its time. */
static void the_dial_turns_in_every_direction(void **state)
{
	(void)state;
	countdown_none();
	thread_state.interval = 0;
	thread_state.random = 99;
	control.mode = LIVE_MODE_EXACT;
	mode_start();
	assert_true(mode_is_exact());
	assert_false(sample_is_absent((void *)4096));
	control.mode = LIVE_MODE_DORMANT;
	assert_false(mode_is_exact());
	assert_false(countdown_passes(100));
	assert_int_equal(mode_decide(100, NULL), MODE_SKIP);
	uint64_t passed = 0;

	while (countdown_passes(1000))
		passed++;
	assert_true(passed > 1000 && passed < 1100); /* about a MiB between two looks */
	assert_int_equal(mode_decide(1000, NULL), MODE_SKIP);
	control.mode = LIVE_MODE_EXACT;
	while (countdown_passes(1000))
		;
	assert_int_equal(mode_decide(1000, NULL), MODE_EXACTLY);
	for (int i = 0; i < 100; i++) {
		assert_false(countdown_passes(1000));
		assert_true(mode_is_exact());
	}
	control.mode = LIVE_MODE_SAMPLE;
	assert_false(countdown_passes(INTERVAL));
	assert_int_equal(mode_decide(INTERVAL, NULL), INTERVAL);
	control.interval = 4096;
	uint64_t first = 0;

	while (first == 0) /* a sample that was begun under the old interval ends under it */
		first = countdown_passes(64) ? 0 : mode_decide(64, NULL);
	assert_int_equal(first, INTERVAL);
	for (first = 0; first == 0;)
		first = countdown_passes(64) ? 0 : mode_decide(64, NULL);
	assert_int_equal(first, 4096);
	control.mode = LIVE_MODE_EXACT;
	for (first = 0; first == 0;)
		first = countdown_passes(64) ? 0 : mode_decide(64, NULL);
	assert_int_equal(first, 4096);
	assert_false(countdown_passes(64));
	assert_true(mode_is_exact());
	control.mode = LIVE_MODE_SAMPLE;
	control.interval = INTERVAL;
}

static uint64_t judged(uint64_t size)
{
	if (countdown_passes(size))
		return MODE_SKIP;
	return mode_is_exact() ? MODE_EXACTLY : mode_decide(size, NULL);
}

/* By the program: its own word counts until it gives it back to what the settings say. */
static void a_program_turns_the_dial_itself(void **state)
{
	(void)state;
	settings.mode = control.mode = LIVE_MODE_EXACT;
	control.interval = 0;
	mode_start();
	assert_int_equal(judged(10), MODE_EXACTLY);
	mode_set(LIVE_MODE_TAGS);
	assert_int_equal(judged(10), MODE_WITHOUT_STACK);
	mode_limit_stacks(16, 64);
	assert_int_equal(judged(32), MODE_WITHOUT_STACK);
	mode_set(LIVE_MODE_EXACT);
	assert_int_equal(judged(15), MODE_WITHOUT_STACK);
	assert_int_equal(judged(16), MODE_EXACTLY);
	assert_int_equal(judged(64), MODE_EXACTLY);
	assert_int_equal(judged(65), MODE_WITHOUT_STACK);
	mode_limit_stacks(0, UINT64_MAX);
	assert_int_equal(judged(15), MODE_EXACTLY);
	assert_true(mode_is_exact());
	control.stack_most_bytes = 100;
	mode_start();
	assert_int_equal(judged(101), MODE_WITHOUT_STACK);
	assert_int_equal(judged(100), MODE_EXACTLY);
	control.stack_most_bytes = 0;
	mode_set(LIVE_MODE_SAMPLE);
	assert_int_equal(judged(SAMPLE_INTERVAL_DEFAULT), SAMPLE_INTERVAL_DEFAULT);
	mode_stop(false);
	assert_int_equal(judged(1 << 20), MODE_SKIP);
	assert_int_equal(mode_decide_map(), MODE_SKIP);
	mode_resume(false);
	assert_int_equal(judged(SAMPLE_INTERVAL_DEFAULT), SAMPLE_INTERVAL_DEFAULT);
	mode_set(MODE_FOLLOW);
	assert_int_equal(judged(10), MODE_EXACTLY);
	mode_stop(true);
	for (int i = 0; i < 100; i++)
		assert_int_equal(judged(UINT64_C(1) << 50), MODE_SKIP);
	mode_set(LIVE_MODE_EXACT);
	assert_int_equal(judged(10), MODE_SKIP);
	mode_resume(true);
	assert_int_equal(judged(10), MODE_EXACTLY);
	mode_set(77);
	assert_int_equal(judged(10), MODE_EXACTLY);
	mode_set(MODE_FOLLOW);
	settings.mode = control.mode = LIVE_MODE_DORMANT;
	control.mode_on = LIVE_MODE_TAGS;
	mode_start();
	assert_int_equal(judged(10), MODE_SKIP);
	mode_resume(false);
	mode_resume(false);
	assert_int_equal(judged(10), MODE_WITHOUT_STACK);
	mode_set(MODE_FOLLOW);
	assert_int_equal(judged(10), MODE_SKIP);
	control.mode = LIVE_MODE_SAMPLE;
	control.interval = INTERVAL;
	mode_start();
}

/* Recorded blocks are always found; after the last of a place is gone, its frees pass again. */
static void the_filter_never_misses(void **state)
{
	static uint8_t recorded[4096];
	uint32_t seed = 7;

	(void)state;
	sample_start(true);
	for (int i = 0; i < 200000; i++) {
		seed = seed * 1664525 + 1013904223;
		uintptr_t at = seed >> 20;
		const void *block = (const void *)(0x7f0000000000 + at * 4112);

		if (recorded[at])
			sample_forget(block);
		else
			sample_remember(block);
		recorded[at] = !recorded[at];
		for (uintptr_t j = at & ~15ul; j < (at & ~15ul) + 16; j++)
			if (recorded[j])
				assert_false(sample_is_absent(
					(const void *)(0x7f0000000000 + j * 4112)));
	}
	for (uintptr_t at = 0; at < 4096; at++)
		if (recorded[at])
			sample_forget((const void *)(0x7f0000000000 + at * 4112));
	for (size_t i = 0; i < SAMPLE_BUCKETS; i++)
		assert_int_equal(sample_filter[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_are_those_of_libm),
		cmocka_unit_test(rounding_keeps_the_mean),
		cmocka_unit_test(draws_are_exponential),
		cmocka_unit_test(intervals_cover_the_truth),
		cmocka_unit_test(the_dial_turns_in_every_direction),
		cmocka_unit_test(a_program_turns_the_dial_itself),
		cmocka_unit_test(the_filter_never_misses),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
