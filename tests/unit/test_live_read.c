/* SPDX-License-Identifier: Apache-2.0 */
/* links: format base */
/* Reading a live profile that was made by hand: counters, the rule of the peak, distributions, ages, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "format/live/live_read.h"
#include "format/live/live_read_parts.h"
#include "live_made.h"

#define TOTAL (256ull << 20)

static void start(struct made *made, uint64_t total)
{
	struct live_header *head = mmap(NULL, total, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(head, MAP_FAILED);
	assert_int_equal(live_header_init(head, total), 0);
	made_start(made, head);
}

static void end(struct made *made)
{
	munmap(made->head, made->head->total_bytes);
}

static struct process_rows read_rows(struct made *made)
{
	struct process_rows rows = { 0 };
	struct format_error error = { "" };

	if (live_read_rows(made->head, made->head->total_bytes, NULL, LIVE_MODE_EXACT, &rows,
			   &error) != 0)
		fail_msg("%s", error.message);
	return rows;
}

/* Whatever was read can be written and read back. */
static void assert_encodes(const struct process_rows *rows)
{
	struct recording recording = { .processes = (struct process_rows *)rows,
				       .process_count = 1 },
			 back = { 0 };
	void *bytes;
	size_t length;

	assert_int_equal(recording_encode(&recording, &bytes, &length, NULL), 0);
	assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
	assert_int_equal(back.warnings.bad_chunks, 0);
	assert_int_equal(back.process_count, 1);
	assert_int_equal(back.processes[0].site_counters_count, rows->site_counters_count);
	if (rows->site_counters_count)
		assert_memory_equal(back.processes[0].site_counters, rows->site_counters,
				    rows->site_counters_count * sizeof *rows->site_counters);
	assert_int_equal(back.processes[0].bar_count, rows->bar_count);
	if (rows->bar_count)
		assert_memory_equal(back.processes[0].bars, rows->bars,
				    rows->bar_count * sizeof *rows->bars);
	recording_release(&back);
	free(bytes);
}

static uint32_t a_site(struct made *made, enum live_kind kind)
{
	uint32_t module = made_module(made, "/bin/x");
	uint32_t outer = made_node(made, 0, made_frame(made, live_frame_pack(module, 0x10, 0)));

	return made_site(made,
			 made_node(made, outer, made_frame(made, live_frame_pack(module, 0x20, 0))),
			 kind);
}

static void site_counters_become_rows_and_heap_totals(void **state)
{
	struct made made;
	struct process_rows rows;
	uint32_t heap, map;

	(void)state;
	start(&made, TOTAL);
	heap = a_site(&made, LIVE_KIND_HEAP);
	map = a_site(&made, LIVE_KIND_MMAP);
	made_counts(&made, heap, 0, 64, 10, 4);
	made_counts(&made, map, 0, 4096, 3, 1);
	made_counts(&made, 0, 0, 1, 1, 1); /* not there yet */
	made_counts(&made, heap, 1, 64, 0, 2);
	made.head->peak.state = 1;
	rows = read_rows(&made);
	assert_int_equal(rows.site_counters_count, 3);
	assert_int_equal(rows.process.calls, 10);
	assert_int_equal(rows.process.bytes, 640);
	assert_int_equal(rows.process.frees, 6);
	assert_int_equal(rows.process.freed_bytes, 384);
	assert_int_equal(rows.process.map_calls, 3);
	assert_int_equal(rows.process.map_bytes, 3 * 4096);
	assert_int_equal(rows.process.unmap_calls, 1);
	assert_int_equal(rows.process.peak_bytes, 256);
	assert_int_equal(rows.process.peak_blocks, 4);
	assert_int_equal(rows.process.pid, 4711);
	assert_string_equal(rows.process.allocator, "glibc");
	assert_string_equal(rows.modules[1].path, "/bin/x");
	assert_int_equal(rows.nodes[rows.sites[heap].node].frame, rows.frame_count - 3);
	assert_int_equal(rows.site_counters[2].peak_blocks, -2);
	assert_encodes(&rows);
	process_rows_release(&rows);
	end(&made);
}

/* One record, 6 blocks of 64 bytes alive now, 9 when the epoch it was last saved in began. */
static struct process_rows with_peak(uint32_t state, uint32_t counters_epoch)
{
	struct made made;
	struct live_site_counters *counters;
	struct process_rows rows;

	start(&made, TOTAL);
	counters = made_counters(&made,
				 made_counts(&made, a_site(&made, LIVE_KIND_HEAP), 0, 64, 10, 4));
	counters->peak_bytes = 9 * 64;
	counters->peak_blocks = 9;
	counters->epoch = counters_epoch;
	made.head->peak.state = state;
	made.head->peak.peak_ms = 77;
	made.head->peak.bound_bytes = 5;
	rows = read_rows(&made);
	end(&made);
	assert_int_equal(rows.process.peak_at_ns, 77000000);
	assert_int_equal(rows.process.peak_bound_bytes, 0);
	assert_int_equal(rows.process.peak_bytes, rows.site_counters[0].peak_bytes);
	return rows;
}

static void the_peak_is_what_lives_now_while_it_rises(void **state)
{
	struct process_rows rows = with_peak(3 * 2 + 1, 3);

	(void)state;
	assert_int_equal(rows.process.peak_bytes, 6 * 64);
	assert_int_equal(rows.process.peak_blocks, 6);
	process_rows_release(&rows);
}

static void the_peak_is_what_was_saved_in_this_epoch(void **state)
{
	struct process_rows rows = with_peak(3 * 2, 3);

	(void)state;
	assert_int_equal(rows.process.peak_bytes, 9 * 64);
	assert_int_equal(rows.process.peak_blocks, 9);
	process_rows_release(&rows);
}

static void what_was_saved_in_an_older_epoch_is_not_the_peak(void **state)
{
	struct process_rows rows = with_peak(4 * 2, 3);

	(void)state;
	assert_int_equal(rows.process.peak_bytes, 6 * 64);
	assert_int_equal(rows.process.peak_blocks, 6);
	process_rows_release(&rows);
}

static void with_several_slots_the_bound_is_told(void **state)
{
	struct made made;
	struct process_rows rows;

	(void)state;
	start(&made, TOTAL);
	made.head->peak.shared = 1;
	made.head->peak.bound_bytes = 12345;
	rows = read_rows(&made);
	assert_int_equal(rows.process.peak_bound_bytes, 12345);
	process_rows_release(&rows);
	end(&made);
}

/* The recorder's side of the rule, on a history of blocks, against the largest total that brute force sees. */
static void random_histories_give_the_peak_of_brute_force(void **state)
{
	enum { SITES = 4, STEPS = 60 };
	struct made made;
	uint64_t seed = 1;

	(void)state;
	start(&made, TOTAL);
	for (unsigned i = 0; i < SITES; i++)
		made_counts(&made, a_site(&made, LIVE_KIND_HEAP), 0, 8, 0, 0);
	for (unsigned history = 0; history < 2000; history++) {
		uint64_t total = 0, peak = 0, at_peak[SITES] = { 0 };
		uint32_t epoch = 0, rising = 1;
		struct process_rows rows;

		for (unsigned i = 0; i < SITES; i++)
			*made_counters(&made, i + 1) = (struct live_site_counters){
				.site = LIVE_SITE_FIRST + i, .first_size = 8, .epoch = 0
			};
		for (unsigned step = 0; step < STEPS; step++) {
			unsigned site = (unsigned)(hash_mix(seed++) % SITES);
			struct live_site_counters *r = made_counters(&made, site + 1);
			int frees = r->calls > r->frees && hash_mix(seed++) % 2;

			if (frees && rising) {
				rising = 0;
				epoch++;
			}
			if (!rising && r->epoch != epoch) {
				r->peak_bytes = (int64_t)(r->bytes - r->freed_bytes);
				r->peak_blocks = (int32_t)(r->calls - r->frees);
				r->epoch = epoch;
			}
			r->calls += !frees;
			r->bytes += frees ? 0 : 8;
			r->frees += (uint64_t)frees;
			r->freed_bytes += frees ? 8 : 0;
			total += frees ? -8ull : 8ull;
			if (total > peak) {
				peak = total;
				rising = 1;
				for (unsigned i = 0; i < SITES; i++)
					at_peak[i] = made_counters(&made, i + 1)->bytes -
						     made_counters(&made, i + 1)->freed_bytes;
			}
		}
		made.head->peak.state = epoch * 2 + rising;
		rows = read_rows(&made);
		assert_int_equal(rows.process.peak_bytes, peak);
		for (size_t i = 0; i < rows.site_counters_count; i++)
			assert_int_equal(rows.site_counters[i].peak_bytes,
					 at_peak[rows.site_counters[i].site - LIVE_SITE_FIRST]);
		process_rows_release(&rows);
	}
	end(&made);
}

static void sizes_are_exact_while_few_and_half_octaves_beyond(void **state)
{
	struct made made;
	struct process_rows rows;
	uint32_t site, one, few, many, unit;
	struct live_sizes_few *few_sizes;
	struct live_sizes_many *many_sizes;

	(void)state;
	start(&made, TOTAL);
	site = a_site(&made, LIVE_KIND_HEAP);
	one = made_counts(&made, site, 0, 48, 7, 0);
	few = made_counts(&made, site, 1, 48, 7, 0);
	many = made_counts(&made, site, 2, 48, 7, 0);
	(void)one;
	unit = made_append(&made, LIVE_POOL, 2);
	made_counters(&made, few)->sizes = unit;
	few_sizes = (void *)((char *)made_at(&made, LIVE_POOL) + (size_t)unit * LIVE_POOL_UNIT);
	few_sizes->used = 2;
	few_sizes->entry[0].size = 100;
	few_sizes->entry[0].count = 3;
	few_sizes->entry[1].size = 8;
	few_sizes->entry[1].count = 1;
	unit = made_append(&made, LIVE_POOL, 12);
	made_counters(&made, many)->sizes = unit | LIVE_SIZES_MANY;
	many_sizes = (void *)((char *)made_at(&made, LIVE_POOL) + (size_t)unit * LIVE_POOL_UNIT);
	many_sizes->count[live_size_bucket(48)] = 5;
	many_sizes->count[live_size_bucket(1 << 20)] = 2;
	rows = read_rows(&made);
	assert_int_equal(rows.site_counters_count, 3);
	assert_int_equal(rows.site_counters[0].sizes_count, 1);
	assert_int_equal(rows.bars[rows.site_counters[0].sizes_at].count, 7);
	assert_int_equal(rows.bars[rows.site_counters[0].sizes_at].high, 48);
	assert_int_equal(rows.site_counters[1].sizes_count, 3);
	assert_int_equal(rows.bars[rows.site_counters[1].sizes_at].low, 8);
	assert_int_equal(rows.bars[rows.site_counters[1].sizes_at + 1].low, 48);
	assert_int_equal(rows.bars[rows.site_counters[1].sizes_at + 1].count, 3);
	assert_int_equal(rows.bars[rows.site_counters[1].sizes_at + 2].low, 100);
	assert_int_equal(rows.site_counters[2].sizes_count, 2);
	assert_int_equal(rows.bars[rows.site_counters[2].sizes_at].low, 48);
	assert_int_equal(rows.bars[rows.site_counters[2].sizes_at].high, 63);
	assert_int_equal(rows.bars[rows.site_counters[2].sizes_at + 1].low, 1 << 20);
	assert_encodes(&rows);
	process_rows_release(&rows);
	end(&made);
}

/* Two objects of one kind, one of a kind that is not known, and a list that is a circle or leads out of the pool. */
static void pairs_are_summed_over_a_list_that_may_be_damaged(void **state)
{
	static const uint32_t ends[] = { 0, 1, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const uint32_t units = sizeof(struct live_pairs) / LIVE_POOL_UNIT;
		struct made made;
		struct live_pairs *pairs;
		struct process_rows rows;
		uint32_t first;

		start(&made, TOTAL);
		first = made_append(&made, LIVE_POOL, 3ull * units);
		pairs = (void *)((char *)made_at(&made, LIVE_POOL) +
				 (size_t)first * LIVE_POOL_UNIT);
		pairs[0] = (struct live_pairs){ .kind = LIVE_PAIRS_KINDS, .next = first + units };
		pairs[0].count[1][1] = 9;
		pairs[1] = (struct live_pairs){ .kind = LIVE_PAIRS_REALLOC,
						.next = first + 2 * units };
		pairs[1].count[4][5] = 7;
		pairs[2] = (struct live_pairs){ .kind = LIVE_PAIRS_REALLOC,
						.next = ends[i] == 1 ? 0 : ends[i] };
		pairs[2].count[4][5] = 2;
		pairs[2].count[39][0] = 1;
		if (ends[i] == 1)
			pairs[2].next = first;
		made.head->pairs = first;
		rows = read_rows(&made);
		assert_int_equal(rows.pair_count, 2);
		assert_int_equal(rows.pairs[0].first, 4);
		assert_int_equal(rows.pairs[0].second, 5);
		/* A circle is left after as many objects as there may be. */
		assert_int_equal(rows.pairs[0].count, 9);
		assert_int_equal(rows.pairs[1].first, 39);
		assert_int_equal(rows.pairs[1].count, 1);
		assert_encodes(&rows);
		process_rows_release(&rows);
		end(&made);
	}
}

static void lifetimes_and_reallocs_come_from_the_pool(void **state)
{
	struct made made;
	struct process_rows rows;
	uint32_t counters, unit;
	struct live_lifetimes *lifetimes;
	struct live_reallocs *reallocs;

	(void)state;
	start(&made, TOTAL);
	counters = made_counts(&made, a_site(&made, LIVE_KIND_HEAP), 0, 48, 9, 9);
	unit = made_append(&made, LIVE_POOL, sizeof *lifetimes / LIVE_POOL_UNIT + 1);
	lifetimes = (void *)((char *)made_at(&made, LIVE_POOL) + (size_t)unit * LIVE_POOL_UNIT);
	lifetimes->count[0] = 2;
	lifetimes->count[30] = 1;
	lifetimes->count[38] = 1; /* R10: eight years and more */
	lifetimes->sum_ms = 1000;
	reallocs = (void *)(lifetimes + 1);
	reallocs->calls = 4;
	reallocs->moved_bytes = 99;
	made_counters(&made, counters)->lifetimes = unit;
	made_counters(&made, counters)->reallocs = unit + sizeof *lifetimes / LIVE_POOL_UNIT;
	rows = read_rows(&made);
	assert_int_equal(rows.site_counters[0].lifetimes_count, 4);
	assert_int_equal(rows.site_counters[0].lifetime_ms_sum, 1000);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at].low, 0);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at].high, 1);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at].count, 5);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at + 1].low, 1);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at + 2].low, 1 << 30);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at + 2].high, 1ull << 31);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at + 3].low, 1ull << 38);
	assert_int_equal(rows.bars[rows.site_counters[0].lifetimes_at + 3].high, UINT64_MAX);
	assert_int_equal(rows.site_counters[0].reallocs.calls, 4);
	assert_int_equal(rows.site_counters[0].reallocs.moved_bytes, 99);
	assert_encodes(&rows);
	process_rows_release(&rows);
	end(&made);
}

static void a_thread_gets_what_its_slot_gained_while_it_owned_it(void **state)
{
	struct made made;
	struct live_thread *threads;
	struct live_owners *owners;
	struct process_rows rows;

	(void)state;
	start(&made, TOTAL);
	made_append(&made, LIVE_SLOTS, 1);
	made_append(&made, LIVE_THREADS, 4);
	threads = made_at(&made, LIVE_THREADS);
	threads[0] = (struct live_thread){ .tid = 10, .slot = 0, .name = "main" };
	threads[1] = (struct live_thread){
		.tid = 11, .slot = 1, .started_ms = 4, .name = "fifteen letters", .counted_as = 1
	};
	threads[2] = (struct live_thread){
		.tid = 12,
		.slot = 1,
		.calls = 5,
		.bytes = 50,
		.frees = 2,
		.freed_bytes = 20,
		.counted_as = 2,
		.remote = { [LIVE_KIND_HEAP] = { 7, 70 }, [LIVE_KIND_POOL] = { 1, 8 } },
		.owners = made_append(&made, LIVE_POOL, 6)
	};
	owners = (void *)((char *)made_at(&made, LIVE_POOL) +
			  (size_t)threads[2].owners * LIVE_POOL_UNIT);
	owners->entry[0].thread = 1;
	owners->entry[0].blocks = 4;
	owners->entry[0].bytes = 40;
	*made_slot(&made, 0) = (struct live_slot){ .calls = 100, .bytes = 1000 };
	*made_slot(&made, 1) =
		(struct live_slot){ .calls = 8, .bytes = 80, .frees = 8, .freed_bytes = 80 };
	rows = read_rows(&made);
	assert_int_equal(rows.thread_count, 4);
	assert_int_equal(rows.threads[3].tid, 0); /* it is not there yet, and has nothing */
	assert_int_equal(rows.threads[3].calls, 0);
	assert_int_equal(rows.threads[0].calls, 100);
	assert_int_equal(rows.threads[1].calls, 5);
	assert_int_equal(rows.threads[1].started_ns, 4000000);
	assert_string_equal(rows.threads[1].name, "fifteen letters");
	assert_int_equal(rows.threads[2].calls, 3);
	assert_int_equal(rows.threads[2].freed_bytes, 60);
	assert_int_equal(rows.threads[1].slot,
			 1); /* N10: counters are the thread's, not the slot's */
	assert_int_equal(rows.threads[2].slot, 2);
	assert_int_equal(rows.remote_frees_count, 3);
	assert_int_equal(rows.remote_frees[0].freer, 2);
	assert_int_equal(rows.remote_frees[0].owner, 0);
	assert_int_equal(rows.remote_frees[0].blocks, 4);
	assert_int_equal(rows.remote_frees[1].owner, UINT32_MAX);
	assert_int_equal(rows.remote_frees[1].bytes, 30);
	assert_int_equal(rows.remote_frees[2].kind, LIVE_KIND_POOL);
	assert_int_equal(rows.remote_frees[2].blocks, 1);
	process_rows_release(&rows);
	end(&made);
}

static void totals_are_the_sums_of_the_slots(void **state)
{
	struct made made;
	struct live_totals totals;

	(void)state;
	start(&made, TOTAL);
	made_append(&made, LIVE_SLOTS, 1);
	*made_slot(&made, 0) = (struct live_slot){ .calls = 100, .bytes = 1000, .temporary = 3 };
	*made_slot(&made, 1) =
		(struct live_slot){ .calls = 1, .bytes = 10, .frees = 90, .freed_bytes = 900 };
	made.head->opened_bytes = 4096;
	assert_int_equal(live_read_totals(made.head, TOTAL, NULL, &totals), 0);
	assert_int_equal(totals.calls, 101);
	assert_int_equal(totals.live.bytes, 110);
	assert_int_equal(totals.live.bytes_bound, 0);
	assert_int_equal(totals.temporary, 3);
	assert_int_equal(totals.own_bytes, 4096);
	assert_int_equal(totals.slots, 2);
	assert_int_equal(live_read_totals(made.head, 4096, NULL, &totals), -1);
	end(&made);
}

static void the_live_bytes_of_a_site_are_summed_over_its_slots(void **state)
{
	struct made made;
	struct live_sites sites;
	uint32_t site, counters;

	(void)state;
	start(&made, TOTAL);
	site = a_site(&made, LIVE_KIND_HEAP);
	counters = made_counts(&made, site, 0, 16, 9, 1);
	made_counters(&made, counters)->temporary = 2;
	made_counters(&made, counters)->fragmentation = 80;
	made_counts(&made, site, 1, 16, 0, 3);
	assert_int_equal(live_read_sites(made.head, TOTAL, NULL, &sites), 0);
	assert_int_equal(sites.count, site + 1);
	assert_int_equal(sites.live[site].blocks, 5);
	assert_int_equal(sites.live[site].bytes, 80);
	assert_int_equal(sites.counts[site].calls, 9);
	assert_int_equal(sites.counts[site].bytes, 144);
	assert_int_equal(sites.counts[site].temporary, 2);
	assert_int_equal(sites.counts[site].fragmentation, 80);
	live_sites_release(&sites);
	end(&made);
}

static void blocks_of_the_map_have_an_age(void **state)
{
	struct made made;
	struct process_rows rows;
	struct live_area *area;
	struct live_large *large;
	uint32_t counters, leaf;

	(void)state;
	start(&made, TOTAL);
	made_counts(&made, 0, 0, 1, 1, 1); /* counters that become no row: ids shift */
	counters = made_counts(&made, a_site(&made, LIVE_KIND_HEAP), 0, 64, 10, 4);
	made_small_block(&made, 0x1000, counters, 64, 1000);
	made_small_block(&made, 0x1040, counters, 64, 997);
	made_small_block(&made, 0x300000, counters, 64, 1000);
	made_small_block(&made, 0x1080, 99999, 64, 0); /* no such record */
	area = made_at(&made, LIVE_AREAS);
	leaf = made_append(&made, LIVE_LEAVES, 4);
	area->large[0] = leaf + 1;
	area->large[1] = leaf + 1; /* damage: must not count twice */
	large = (void *)((char *)made_at(&made, LIVE_LEAVES) + (size_t)leaf * LIVE_LEAF_UNIT);
	large[5] = (struct live_large){
		.address = 0x5000, .size_bytes = 1 << 20, .counters = counters, .birth_ms = 0
	};
	rows = read_rows(&made);
	assert_int_equal(live_read_ages(made.head, TOTAL, 1000, &rows, NULL), 0);
	assert_int_equal(rows.age_count, 3);
	assert_int_equal(rows.ages[0].counters, 0);
	assert_int_equal(rows.ages[0].bucket, 0);
	assert_int_equal(rows.ages[0].blocks, 2);
	assert_int_equal(rows.ages[0].bytes, 128);
	assert_int_equal(rows.ages[1].bucket, 2);  /* 3 ms: [2, 4) */
	assert_int_equal(rows.ages[2].bucket, 10); /* 1000 ms: [512, 1024) */
	assert_int_equal(rows.ages[2].bytes, 1 << 20);
	assert_encodes(&rows);
	process_rows_release(&rows);
	end(&made);
}

static void damage_is_kept_within_bounds(void **state)
{
	struct made made;
	struct process_rows rows;
	uint32_t site, node, counters;

	(void)state;
	start(&made, TOTAL);
	site = a_site(&made, LIVE_KIND_HEAP);
	counters = made_counts(&made, site, 0xffffffff, 64, 10, 4);
	made_counters(&made, counters)->sizes = 0x7fffffff;
	made_counters(&made, counters)->lifetimes = 12345678;
	made_counters(&made, counters)->reallocs = 0xffffffff;
	made_counts(&made, 4000000, 0, 64, 1, 0);
	node = made_node(&made, 0, 0);
	((struct live_node *)made_at(&made, LIVE_NODES))[node] =
		(struct live_node){ node, 0xffffff };
	((struct live_site *)made_at(&made, LIVE_SITES))[site].kind = 77;
	made_frame(&made, live_frame_pack(60000, 1, 1));
	made.head->used[LIVE_THREADS] = 1;
	((struct live_thread *)made_at(&made, LIVE_THREADS))[0].tid = 1;
	((struct live_thread *)made_at(&made, LIVE_THREADS))[0].slot = 0xfffffff0;
	((struct live_thread *)made_at(&made, LIVE_THREADS))[0].counted_as = 0xfffffff0;
	((struct live_thread *)made_at(&made, LIVE_THREADS))[0].owners = 0xfffffff0;
	memset(((struct live_thread *)made_at(&made, LIVE_THREADS))[0].name, 'x', 16);
	made.head->granule_shift = 200;
	rows = read_rows(&made);
	assert_int_equal(live_read_ages(made.head, TOTAL, 5, &rows, NULL), 0);
	assert_int_equal(rows.process.calls, 11);
	assert_int_equal(rows.site_counters[1].site, LIVE_SITE_OTHER_HEAP);
	assert_int_equal(rows.nodes[node].parent, 0);
	assert_int_equal(rows.process.health[HEALTH_lost_details], 3);
	assert_int_equal(rows.threads[0].name[15], 0);
	assert_encodes(&rows);
	process_rows_release(&rows);
	/* Lengths beyond the regions are cut to what is there. */
	for (unsigned i = 0; i < LIVE_REGIONS; i++)
		made.head->used[i] = i == LIVE_SLOTS || i == LIVE_THREADS || i == LIVE_MODULES
					     ? UINT64_MAX
					     : made.head->used[i];
	rows = read_rows(&made);
	assert_int_equal(rows.thread_count,
			 made.head->region[LIVE_THREADS].bytes / sizeof(struct live_thread));
	process_rows_release(&rows);
	end(&made);
}

static void a_million_records_take_well_under_a_second(void **state)
{
	enum { RECORDS = 1000000 };
	struct made made;
	struct process_rows rows;
	struct timespec before, after;
	uint32_t site;
	double seconds;

	(void)state;
	start(&made, 8ull << 30);
	site = a_site(&made, LIVE_KIND_HEAP);
	for (uint32_t i = 0; i < RECORDS; i++)
		made_counts(&made, site, i % 1000, 64, 2, 1);
	clock_gettime(CLOCK_MONOTONIC, &before);
	rows = read_rows(&made);
	clock_gettime(CLOCK_MONOTONIC, &after);
	seconds = (double)(after.tv_sec - before.tv_sec) +
		  (double)(after.tv_nsec - before.tv_nsec) / 1e9;
	print_message("          %d records in %.3f s\n", RECORDS, seconds);
	assert_int_equal(rows.site_counters_count, RECORDS);
	assert_int_equal(rows.process.calls, 2 * RECORDS);
	assert_true(seconds < 10); /* sanitizers on a loaded machine; 0.2 s without */
	process_rows_release(&rows);
	end(&made);
}

/* H5: the stacks of all sites together are no longer than what was written allows. */
static void a_stack_without_end_is_cut(void **state)
{
	enum { DEEP = 5000 };
	struct made made;
	uint32_t node = 0, depth = 0;

	(void)state;
	start(&made, LIVE_TOTAL_MIN);
	uint32_t frame = made_frame(&made, live_frame_pack(0, 0x10, 0));

	for (int i = 0; i < DEEP; i++)
		node = made_node(&made, node, frame);
	made_counts(&made, made_site(&made, node, LIVE_KIND_HEAP), 0, 64, 1, 0);
	struct process_rows rows = read_rows(&made);

	for (uint32_t at = node; at; at = rows.nodes[at].parent)
		depth++;
	assert_in_range(depth, 1, LIVE_DEPTH_MAX + 2);
	assert_encodes(&rows);
	process_rows_release(&rows);
	end(&made);
}

/* What CPython 3.11 makes of "def f(a):", a line, two empty ones, and a call over two lines; and what its co_lines() says of it. */
static void the_line_of_an_instruction_is_the_interpreters(void **state)
{
	static const uint8_t table[] = { 128, 0,  216, 8,  9,	136, 65,  137, 5,  128, 65, 245,
					 6,   0,  12,  13, 136, 81,  216, 13,  14, 241, 3,  1,
					 12,  16, 244, 0,  1,	12,  16,  240, 0,  1,	5,  16 };
	static const uint32_t lines[] = { 1, 2, 2, 2, 2, 2, 5, 5, 5, 5, 5,
					  5, 5, 6, 5, 5, 5, 5, 5, 5, 5, 5 };

	(void)state;
	for (uint32_t unit = 0; unit < ARRAY_SIZE(lines); unit++)
		assert_int_equal(live_python_line(table, sizeof table, 1, unit), lines[unit]);
	assert_int_equal(live_python_line(table, sizeof table, 1, ARRAY_SIZE(lines)), 0);
	/* Cut anywhere it ends, and says nothing of what is behind. */
	for (size_t bytes = 0; bytes < sizeof table; bytes++)
		assert_true(live_python_line(table, bytes, 1, 21) <= 6);
	assert_int_equal(live_python_line(table, 0, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(site_counters_become_rows_and_heap_totals),
		cmocka_unit_test(a_stack_without_end_is_cut),
		cmocka_unit_test(the_peak_is_what_lives_now_while_it_rises),
		cmocka_unit_test(the_peak_is_what_was_saved_in_this_epoch),
		cmocka_unit_test(what_was_saved_in_an_older_epoch_is_not_the_peak),
		cmocka_unit_test(with_several_slots_the_bound_is_told),
		cmocka_unit_test(random_histories_give_the_peak_of_brute_force),
		cmocka_unit_test(sizes_are_exact_while_few_and_half_octaves_beyond),
		cmocka_unit_test(lifetimes_and_reallocs_come_from_the_pool),
		cmocka_unit_test(pairs_are_summed_over_a_list_that_may_be_damaged),
		cmocka_unit_test(a_thread_gets_what_its_slot_gained_while_it_owned_it),
		cmocka_unit_test(totals_are_the_sums_of_the_slots),
		cmocka_unit_test(the_live_bytes_of_a_site_are_summed_over_its_slots),
		cmocka_unit_test(blocks_of_the_map_have_an_age),
		cmocka_unit_test(damage_is_kept_within_bounds),
		cmocka_unit_test(the_line_of_an_instruction_is_the_interpreters),
		cmocka_unit_test(a_million_records_take_well_under_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
