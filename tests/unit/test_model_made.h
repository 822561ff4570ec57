/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings made by hand, for tests of the reader: in memory, so that they do not depend on the
 * encoder. Everything is malloc'd as recording_release expects it.
 */
#ifndef TEST_MODEL_MADE_H
#define TEST_MODEL_MADE_H

#include "test_model_made_map.h"
#include "test_model_rows.h"

enum { MADE_SECOND = 1000000000 };

static inline void made_totals(struct process_rows *rows)
{
	struct process_row *p = &rows->process;
	int64_t peak_bytes = 0, peak_blocks = 0;

	for (size_t i = 0; i < rows->site_counters_count; i++) {
		const struct site_counters_row *c = &rows->site_counters[i];

		if (rows->sites[c->site].kind == LIVE_KIND_MMAP) {
			p->map_calls += c->calls;
			p->map_bytes += c->bytes;
			p->unmap_calls += c->frees;
			p->unmap_bytes += c->freed_bytes;
			continue;
		}
		p->calls += c->calls;
		p->bytes += c->bytes;
		p->frees += c->frees;
		p->freed_bytes += c->freed_bytes;
		p->temporary += c->temporary;
		p->fragmentation += c->fragmentation;
		p->freed_fragmentation += c->freed_fragmentation;
		peak_bytes += c->peak_bytes;
		peak_blocks += c->peak_blocks;
	}
	p->peak_bytes = (uint64_t)peak_bytes;
	p->peak_blocks = (uint64_t)peak_blocks;
}

/* Pages of the server: one site keeps a page for two, one is mapped. */
static inline void made_pages(struct process_rows *rows)
{
	MADE(rows, pages.sums, pages.sum_count,
	     { .at_ns = 2000000000,
	       .rss_bytes = 200704,
	       .sites_bytes = 86016,
	       .free_bytes = 69632,
	       .unrecorded_bytes = 4096,
	       .stack_bytes = 8192,
	       .file_bytes = 16384,
	       .own_bytes = 12288,
	       .changed_bytes = 4096,
	       .waste_bytes = 10336,
	       .trim_bytes = 65536,
	       .changed_blocks = 2,
	       .knows_huge = 1 });
	MADE(rows, pages.sites, pages.site_count,
	     { .site = 3,
	       .blocks = 10,
	       .live_bytes = 5760,
	       .resident_bytes = 14336,
	       .sole_bytes = 12288,
	       .any_bytes = 16384,
	       .pinned_bytes = 10000,
	       .packed_bytes = 8192,
	       .zero_bytes = 100 },
	     { .site = 6,
	       .blocks = 5,
	       .live_bytes = 320,
	       .resident_bytes = 6144,
	       .sole_bytes = 4096,
	       .any_bytes = 8192,
	       .pinned_bytes = 336,
	       .packed_bytes = 4096 },
	     { .site = 7,
	       .blocks = 1,
	       .live_bytes = 131072,
	       .resident_bytes = 65536,
	       .sole_bytes = 65536,
	       .any_bytes = 65536,
	       .packed_bytes = 65536,
	       .untouched_bytes = 65536 });
	MADE(rows, pages.heaps, pages.heap_count,
	     { .start = 1 << 20,
	       .size_bytes = 1 << 20,
	       .is_main = 1,
	       .resident_bytes = 400000,
	       .free_bytes = 69632,
	       .held_bytes = 300000,
	       .holder_blocks = 1,
	       .holder_bytes = 48,
	       .holder_site = 6,
	       .holder_age_ms = 1500 });
}

/* One process that served, leaked a little, mapped something and had one health counter. */
static inline void made_server(struct process_rows *rows)
{
	made_server_sites(rows);
	made_ages(rows);
	made_pages(rows);
	made_page_map(rows);
	MADE(rows, threads, thread_count,
	     { .tid = 4711,
	       .calls = 107,
	       .bytes = 47240,
	       .frees = 92,
	       .freed_bytes = 41160,
	       .name = "server" },
	     { .tid = 4712,
	       .slot = 1,
	       .started_ns = MADE_SECOND,
	       .calls = 6,
	       .bytes = 450,
	       .frees = 6,
	       .freed_bytes = 420,
	       .name = "worker" });
	MADE(rows, remote_frees, remote_frees_count,
	     { .freer = 1, .owner = 0, .blocks = 2, .bytes = 84 });
	MADE(rows, series, series_count, { .at_ns = 0, .rss_bytes = 1 << 20 },
	     { .at_ns = 12 * (uint64_t)MADE_SECOND, .rss_bytes = 3 << 20 });
	rows->process = (struct process_row){
		.pid = 4711,
		.ppid = 1,
		.mode = LIVE_MODE_EXACT,
		.end = END_SIGNAL,
		.exit_code = 2,
		.duration_ns = 12 * (uint64_t)MADE_SECOND + 600000000,
		.map_peak_bytes = 1 << 20,
		.peak_at_ns = 9 * (uint64_t)MADE_SECOND + 100000000,
		.peak_bound_bytes = 256,
		.peak_rss_bytes = 4 << 20,
		.own_bytes = 2 << 20,
		.depth_limit = 256,
		.command = strdup("./server --config small.conf"),
		.exe = strdup("/no/such/server"),
		.allocator = strdup("glibc"),
	};
	rows->process.health[HEALTH_stacks_cut] = 14;
	made_totals(rows);
}

/* A second, small process without trouble. */
static inline void made_child(struct process_rows *rows)
{
	made_stacks(rows);
	MADE(rows, sites, site_count, { 0 }, { .node = 4 });
	MADE(rows, site_counters, site_counters_count,
	     { .site = 1,
	       .calls = 3,
	       .bytes = 300,
	       .frees = 3,
	       .freed_bytes = 300,
	       .peak_bytes = 200,
	       .peak_blocks = 2,
	       .max_bytes = 200,
	       .temporary = 1 });
	MADE(rows, threads, thread_count,
	     { .tid = 4800,
	       .calls = 3,
	       .bytes = 300,
	       .frees = 3,
	       .freed_bytes = 300,
	       .name = "child" });
	rows->process = (struct process_row){
		.pid = 4800,
		.ppid = 4711,
		.mode = LIVE_MODE_EXACT,
		.end = END_EXIT,
		.duration_ns = MADE_SECOND / 2,
		.peak_at_ns = 1000000,
		.command = strdup("child"),
		.exe = strdup("/no/such/server"),
		.allocator = strdup("glibc"),
	};
	made_totals(rows);
}

static inline struct recording made_recording(size_t processes)
{
	struct recording r = { 0 };

	r.run = (struct run_row){
		.started_real_ns = 1700000000 * (uint64_t)MADE_SECOND,
		.duration_ns = 13 * (uint64_t)MADE_SECOND,
		.peak_bytes = 41400,
		.peak_at_ns = 9 * (uint64_t)MADE_SECOND,
		.host = strdup("testhost"),
		.kernel = strdup("6.1.0"),
		.version = strdup("0.1.0"),
		.command = strdup("./server --config small.conf"),
	};
	r.processes = calloc(processes + 1, sizeof *r.processes);
	assert_non_null(r.processes);
	r.process_count = processes;
	if (processes > 0)
		made_server(&r.processes[0]);
	if (processes > 1)
		made_child(&r.processes[1]);
	return r;
}

/* The server with an interval of sampling for its first site, and one for the others on the heap; 0: exact. */
static inline struct recording mixed_recording(uint64_t first, uint64_t second)
{
	struct recording r = made_recording(1);
	struct process_rows *rows = &r.processes[0];

	rows->sites[3].interval = first;
	for (size_t i = 4; i < rows->site_count; i++)
		if (rows->sites[i].kind == LIVE_KIND_HEAP)
			rows->sites[i].interval = second;
	for (size_t i = 0; i < rows->site_counters_count; i++)
		if (rows->sites[rows->site_counters[i].site].interval)
			rows->site_counters[i].samples = (struct live_samples){
				.count = 4,
				.freed_count = 1,
				.calls_variance = 40 << LIVE_VARIANCE_SHIFT,
				.frees_variance = 10 << LIVE_VARIANCE_SHIFT,
				.bytes_variance = 100,
				.freed_variance = 36,
			};
	return r;
}

#endif
