/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random profiles with a naive oracle: the rows of a recording are counted from a list of blocks as
 * the recorder would have counted them, and a test counts its own answer from the same blocks.
 */
#ifndef TEST_ANALYSIS_RANDOM_H
#define TEST_ANALYSIS_RANDOM_H

#include "test_analysis_blocks.h"

static inline struct bar random_lifetime_bar(unsigned lived)
{
	unsigned bucket = lived ? 32u - (unsigned)__builtin_clz(lived) : 0;

	return (struct bar){ bucket ? UINT64_C(1) << (bucket - 1) : 0, UINT64_C(1) << bucket, 1 };
}

static inline struct bar random_size_bar(uint64_t size, bool exact)
{
	unsigned bucket = live_size_bucket(size);

	if (exact)
		return (struct bar){ size, size, 1 };
	return (struct bar){ live_size_bucket_floor(bucket), live_size_bucket_floor(bucket + 1) - 1,
			     1 };
}

/* One more in the bar like this among those from `from` on. */
static inline void random_add_bar(struct process_rows *rows, size_t from, struct bar bar)
{
	for (size_t i = from; i < rows->bar_count; i++)
		if (rows->bars[i].low == bar.low && rows->bars[i].high == bar.high) {
			rows->bars[i].count++;
			return;
		}
	rows->bars[rows->bar_count++] = bar;
}

static inline void random_bars(const struct random_world *w, unsigned process,
			       struct site_counters_row *counters, struct process_rows *rows)
{
	counters->sizes_at = (uint32_t)rows->bar_count;
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];

		if (b->process == process && b->site == counters->site && b->slot == counters->slot)
			random_add_bar(rows, counters->sizes_at,
				       random_size_bar(b->size, b->site % 2 == 0));
	}
	counters->sizes_count = (uint32_t)rows->bar_count - counters->sizes_at;
	counters->lifetimes_at = (uint32_t)rows->bar_count;
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];

		if (b->process == process && b->site == counters->site &&
		    b->freer == counters->slot && block_freed(b))
			random_add_bar(rows, counters->lifetimes_at,
				       random_lifetime_bar(b->died - b->born));
	}
	counters->lifetimes_count = (uint32_t)rows->bar_count - counters->lifetimes_at;
}

static inline void random_count_taken(struct site_counters_row *c, const struct random_block *b)
{
	c->calls++;
	c->bytes += b->size;
	c->fragmentation += b->waste;
	c->temporary += b->temporary;
	c->max_bytes += b->size;
	c->reallocs.calls += b->moved;
	c->reallocs.moved_calls += b->moved;
	c->reallocs.grown_calls += b->moved;
	c->reallocs.moved_bytes += b->copied;
	c->reallocs.old_bytes += b->copied;
	c->reallocs.new_bytes += b->moved ? b->size : 0;
	if (b->born <= RANDOM_PEAK) {
		c->peak_bytes += (int64_t)b->size;
		c->peak_blocks++;
	}
}

static inline void random_count_freed(struct site_counters_row *c, const struct random_block *b)
{
	c->frees++;
	c->freed_bytes += b->size;
	c->freed_fragmentation += b->waste;
	c->lifetime_ms_sum += b->died - b->born;
	if (b->died <= RANDOM_PEAK) {
		c->peak_bytes -= (int64_t)b->size;
		c->peak_blocks--;
	}
}

static inline void random_site_counters(const struct random_world *w, unsigned process,
					struct process_rows *rows)
{
	size_t count = (RANDOM_SITES + 1) * RANDOM_SLOTS;

	rows->site_counters = calloc(count, sizeof *rows->site_counters);
	rows->bars = calloc((size_t)RANDOM_BLOCKS * 2, sizeof *rows->bars);
	rows->site_counters_count = count;
	for (size_t i = 0; i < count; i++) {
		rows->site_counters[i].site = (uint32_t)(i / RANDOM_SLOTS);
		rows->site_counters[i].slot = (uint32_t)(i % RANDOM_SLOTS);
	}
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];

		if (b->process != process)
			continue;
		random_count_taken(&rows->site_counters[b->site * RANDOM_SLOTS + b->slot], b);
		if (block_freed(b))
			random_count_freed(&rows->site_counters[b->site * RANDOM_SLOTS + b->freer],
					   b);
	}
	for (size_t i = 0; i < count; i++)
		random_bars(w, process, &rows->site_counters[i], rows);
}

static inline void random_ages(const struct random_world *w, unsigned process,
			       struct process_rows *rows)
{
	rows->ages = calloc(RANDOM_BLOCKS, sizeof *rows->ages);
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];
		unsigned age = RANDOM_TICKS - b->born;

		if (b->process != process || block_freed(b))
			continue;
		rows->ages[rows->age_count++] = (struct age_row){
			.counters = b->site * RANDOM_SLOTS + b->slot,
			.bucket = 32u - (unsigned)__builtin_clz(age),
			.blocks = 1,
			.bytes = b->size,
		};
	}
}

static inline void random_remote_frees(const struct random_world *w, unsigned process,
				       struct process_rows *rows)
{
	enum { PAIRS = RANDOM_SLOTS * RANDOM_SLOTS };

	rows->remote_frees = calloc(PAIRS * (size_t)LIVE_KINDS, sizeof *rows->remote_frees);
	for (uint32_t kind = 0; kind < LIVE_KINDS; kind++)
		for (uint32_t pair = 0; pair < PAIRS; pair++) {
			uint32_t freer = pair / RANDOM_SLOTS, owner = pair % RANDOM_SLOTS;
			struct remote_frees_row f = { freer, owner, kind, 0, 0 };

			for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
				const struct random_block *b = &w->blocks[i];

				if (b->process == process && block_freed(b) && b->freer == freer &&
				    b->slot == owner && freer != owner &&
				    random_kind(b->site) == kind) {
					f.blocks++;
					f.bytes += b->size;
				}
			}
			if (f.blocks)
				rows->remote_frees[rows->remote_frees_count++] = f;
		}
}

/* Frames 1 to 8 of two modules; node i hangs below one with a smaller number. */
static inline void random_stacks(struct random_world *w, struct process_rows *rows)
{
	rows->modules = calloc(3, sizeof *rows->modules);
	rows->module_count = 3;
	rows->modules[0].path = strdup("");
	rows->modules[1].path = strdup("/no/such/app");
	rows->modules[2].path = strdup("/no/such/libother.so");
	rows->frames = calloc(RANDOM_FRAMES, sizeof *rows->frames);
	rows->frame_count = RANDOM_FRAMES;
	for (uint32_t i = 1; i < RANDOM_FRAMES; i++)
		rows->frames[i] = live_frame_pack(1 + i % 2, 0x1000 * i, 0);
	rows->nodes = calloc(RANDOM_NODES, sizeof *rows->nodes);
	rows->node_count = RANDOM_NODES;
	for (uint32_t i = 1; i < RANDOM_NODES; i++)
		rows->nodes[i] = (struct node_row){
			.parent = (uint32_t)(unit_random(&w->seed) % i),
			.frame = 1 + (uint32_t)(unit_random(&w->seed) % (RANDOM_FRAMES - 1)),
		};
	rows->sites = calloc(RANDOM_SITES + 1, sizeof *rows->sites);
	rows->site_count = RANDOM_SITES + 1;
	for (unsigned i = 1; i <= RANDOM_SITES; i++)
		rows->sites[i] = (struct site_row){
			.node = 1 + (uint32_t)(unit_random(&w->seed) % (RANDOM_NODES - 1)),
			.kind = random_kind(i),
			.born_ns = i,
		};
}

static inline void random_threads(const struct random_world *w, unsigned process,
				  struct process_rows *rows)
{
	rows->threads = calloc(RANDOM_SLOTS, sizeof *rows->threads);
	rows->thread_count = RANDOM_SLOTS;
	for (uint32_t i = 0; i < RANDOM_SLOTS; i++) {
		rows->threads[i] = (struct thread_row){ .tid = 100 * (process + 1) + i, .slot = i };
		snprintf(rows->threads[i].name, sizeof rows->threads[i].name, "thread%u", i);
	}
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];

		if (b->process != process || random_kind(b->site) != LIVE_KIND_HEAP)
			continue;
		rows->threads[b->slot].calls++;
		rows->threads[b->slot].bytes += b->size;
		rows->threads[b->freer].frees += block_freed(b);
		rows->threads[b->freer].freed_bytes += block_freed(b) ? b->size : 0;
	}
}

static inline void random_process(struct random_world *w, unsigned process,
				  struct process_rows *rows)
{
	random_stacks(w, rows);
	random_site_counters(w, process, rows);
	random_ages(w, process, rows);
	random_remote_frees(w, process, rows);
	random_threads(w, process, rows);
	rows->process = (struct process_row){
		.pid = 100 * (process + 1),
		.mode = LIVE_MODE_EXACT,
		.end = END_EXIT,
		.duration_ns = RANDOM_TICKS * UINT64_C(1000000),
		.started_offset_ns = process,
		.peak_at_ns = RANDOM_PEAK * UINT64_C(1000000),
		.command = strdup("random"),
		.exe = strdup("/no/such/app"),
		.allocator = strdup("glibc"),
	};
}

static inline struct recording random_recording(struct random_world *w, uint64_t seed)
{
	struct recording r = { .processes = calloc(RANDOM_PROCESSES, sizeof *r.processes),
			       .process_count = RANDOM_PROCESSES };

	w->seed = seed;
	random_blocks(w);
	r.run.duration_ns = RANDOM_TICKS * UINT64_C(1000000);
	r.run.command = strdup("random");
	for (unsigned i = 0; i < RANDOM_PROCESSES; i++)
		random_process(w, i, &r.processes[i]);
	return r;
}

#endif
