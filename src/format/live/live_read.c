/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live profile -> rows. The target may be running, stopped in the middle of an operation, or dead: the memory is read as it is,
 * without waiting. Tables with references are loaded before the tables they refer to, so that all references are complete; an
 * id that is still out of bounds is damage, and the entry is kept without a stack, or counted as lost, so that totals stay
 * right.
 *
 * Owns only the rows it returns. Any thread, any process that has mapped the memory.
 * Invariant: the rows are valid for recording_encode (every id below its table's length, node.parent < node), and
 * process.peak_bytes is the sum of peak_bytes over the site counters of the heap.
 */
#include "format/live/live_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "format/live/live_read_parts.h"
#include "format/live/live_view.h"

#define NS_PER_MS 1000000ull

enum { PATH_BYTES_MAX = 4096 };

/* Saturates: the clock is untrusted. */
static uint64_t ns_of(uint64_t ms)
{
	return saturating_mul(ms, NS_PER_MS);
}

struct reading {
	struct live_view view;
	struct process_rows *rows;
	size_t pool_used;
	size_t bar_room;
	bool leaves_out_bars;
	bool no_memory;
};

/* Allocates one more row than requested, so that 0 rows are not NULL. After a failure the remaining parts read nothing. */
static void *new_rows(struct reading *reading, size_t count, size_t row_bytes)
{
	void *rows = calloc(count + 1, row_bytes);

	if (!rows)
		reading->no_memory = true;
	return rows;
}

static char *new_text(struct reading *reading, const char *text, size_t length)
{
	char *copy = malloc(length + 1);

	if (!copy) {
		reading->no_memory = true;
		return NULL;
	}
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

/* ---- modules, frames, nodes, sites ---- */

static void read_modules(struct reading *reading)
{
	struct process_rows *rows = reading->rows;
	const struct live_module *modules = live_view_at(&reading->view, LIVE_MODULES);
	const char *strings = live_view_at(&reading->view, LIVE_STRINGS);
	size_t count = MAX(live_view_used(&reading->view, LIVE_MODULES), (size_t)1);
	size_t string_bytes = live_view_used(&reading->view, LIVE_STRINGS);

	rows->modules = new_rows(reading, count, sizeof *rows->modules);
	for (size_t i = 0; i < count && !reading->no_memory; i++) {
		struct live_module from = { 0 };
		struct module_row *row = &rows->modules[i];

		if (i > 0)
			memcpy(&from, &modules[i], sizeof from);
		/* Limits the length, since all modules may refer to the same text. */
		if (from.path_bytes > PATH_BYTES_MAX ||
		    !range_within(from.path_at, from.path_bytes, string_bytes))
			from.path_bytes = 0;
		*row = (struct module_row){
			.path = new_text(reading, from.path_bytes ? strings + from.path_at : "",
					 from.path_bytes),
			.start = from.start,
			.end = MAX(from.start, from.end),
			.bias = from.bias,
			.mapped_ns = ns_of(from.mapped_ms),
			.unmapped_ns = ns_of(from.unmapped_ms),
			.build_id_bytes = MIN(from.build_id_bytes, (uint32_t)sizeof row->build_id),
		};
		memcpy(row->build_id, from.build_id, row->build_id_bytes);
		rows->module_count++;
	}
}

static void read_frames(struct reading *reading, size_t count)
{
	struct process_rows *rows = reading->rows;
	const uint64_t *frames = live_view_at(&reading->view, LIVE_FRAMES);

	rows->frames = new_rows(reading, count, sizeof *rows->frames);
	for (size_t i = 0; i < count && !reading->no_memory; i++) {
		uint64_t frame = LIVE_LOAD(frames[i]);

		if (live_frame_module(frame) >= rows->module_count)
			frame = live_frame_pack(0, live_frame_offset(frame),
						live_frame_exact(frame));
		rows->frames[i] = frame;
	}
	rows->frame_count = reading->no_memory ? 0 : count;
}

/* A node whose parent is not older than itself becomes a child of the root, which removes cycles. So does one that is deeper
 * than any recorded stack: otherwise walking the stacks of all sites could take quadratic time. */
static void read_nodes(struct reading *reading, size_t count, size_t frame_count)
{
	enum {
		DEEPEST = LIVE_DEPTH_MAX + 2
	}; /* including the two markers: truncated, and ended early */
	struct process_rows *rows = reading->rows;
	const struct live_node *nodes = live_view_at(&reading->view, LIVE_NODES);
	uint16_t *depth = new_rows(reading, count, sizeof *depth);

	rows->nodes = new_rows(reading, count, sizeof *rows->nodes);
	for (size_t i = 1; i < count && !reading->no_memory; i++) {
		uint32_t parent = LIVE_LOAD(nodes[i].parent), frame = LIVE_LOAD(nodes[i].frame);

		if (parent >= i || depth[parent] >= DEEPEST)
			parent = 0;
		depth[i] = (uint16_t)(depth[parent] + 1);
		rows->nodes[i].parent = parent;
		rows->nodes[i].frame = frame < frame_count ? frame : 0;
	}
	free(depth);
	rows->node_count = reading->no_memory ? 0 : count;
}

/* limit: of tags, or of sites where the kind has a site in its place. */
static uint32_t site_tag(const struct live_site *site, size_t limit)
{
	uint32_t tag = LIVE_LOAD(site->tag);

	return tag < limit ? tag : 0;
}

static void read_sites(struct reading *reading, size_t count, size_t node_count)
{
	struct process_rows *rows = reading->rows;
	const struct live_site *sites = live_view_at(&reading->view, LIVE_SITES);

	rows->sites = new_rows(reading, count, sizeof *rows->sites);
	for (size_t i = 1; i < count && !reading->no_memory; i++) {
		uint32_t node = LIVE_LOAD(sites[i].node), kind = LIVE_LOAD(sites[i].kind);
		uint32_t entry = LIVE_LOAD(sites[i].entry);

		rows->sites[i] = (struct site_row){
			.node = node < node_count ? node : 0,
			.tag = site_tag(&sites[i],
					live_tag_is_site(kind) ? count : rows->tag_count),
			.kind = kind < LIVE_KINDS ? kind : LIVE_KIND_HEAP,
			.entry = entry < LIVE_ENTRIES ? entry : LIVE_ENTRY_UNKNOWN,
			.born_ns = ns_of(LIVE_LOAD(sites[i].born_ms)),
			.interval = LIVE_LOAD(sites[i].interval),
		};
	}
	rows->site_count = reading->no_memory ? 0 : count;
}

/* In this order: each table's length is loaded after those of the tables that refer to it. */
static void read_stacks(struct reading *reading)
{
	size_t sites = MAX(live_view_used(&reading->view, LIVE_SITES), (size_t)LIVE_SITE_FIRST);
	size_t nodes = MAX(live_view_used(&reading->view, LIVE_NODES), (size_t)1);
	size_t frames = live_view_used(&reading->view, LIVE_FRAMES);

	/* Without any frame, nodes are meaningless. */
	if (frames == 0)
		nodes = 1;
	read_modules(reading);
	read_frames(reading, frames);
	if (!reading->no_memory && live_read_python(&reading->view, reading->rows) < 0)
		reading->no_memory = true;
	read_nodes(reading, nodes, frames);
	if (!reading->no_memory && live_read_tags(&reading->view, reading->rows) < 0)
		reading->no_memory = true;
	read_sites(reading, sites, nodes);
}

/* ---- site counters ---- */

static void add_bar(struct reading *reading, uint64_t low, uint64_t high, uint64_t count)
{
	struct process_rows *rows = reading->rows;

	if (count == 0)
		return;
	if (rows->bar_count == reading->bar_room) {
		size_t room = reading->bar_room + reading->bar_room / 2 + 64;
		struct bar *bars = reallocarray(rows->bars, room, sizeof *bars);

		if (!bars) {
			reading->no_memory = true;
			return;
		}
		rows->bars = bars;
		reading->bar_room = room;
	}
	rows->bars[rows->bar_count++] = (struct bar){ low, high, count };
}

static int compare_bars(const void *a, const void *b)
{
	const struct bar *x = a, *y = b;

	return x->low < y->low ? -1 : x->low > y->low;
}

/* Exact sizes: those stored besides the first, to which the remaining calls belong. */
static void read_few_sizes(struct reading *reading, const struct live_sizes_few *few,
			   uint64_t first_size, uint64_t calls)
{
	size_t at = reading->rows->bar_count;
	uint64_t used = few ? MIN(LIVE_LOAD_LAST(few->used), (uint64_t)LIVE_FEW_SIZES) : 0;
	uint64_t rest = calls;

	for (uint64_t i = 0; i < used; i++) {
		uint64_t size = LIVE_LOAD(few->entry[i].size),
			 count = LIVE_LOAD(few->entry[i].count);

		add_bar(reading, size, size, count);
		rest = saturating_sub(rest, count);
	}
	add_bar(reading, first_size, first_size, rest);
	/* Most have one: a call of qsort for each would take as long as the rest. */
	if (!reading->no_memory && reading->rows->bar_count > at + 1)
		qsort(reading->rows->bars + at, reading->rows->bar_count - at, sizeof(struct bar),
		      compare_bars);
}

static void read_many_sizes(struct reading *reading, const struct live_sizes_many *many)
{
	for (unsigned i = 0; i < LIVE_SIZE_BUCKETS; i++)
		add_bar(reading, live_size_bucket_floor(i), live_size_bucket_last(i),
			LIVE_LOAD(many->count[i]));
}

/* Counts a detail with an invalid pool reference: the memory is damaged. */
static void lost_detail(struct reading *reading)
{
	reading->rows->process.health[HEALTH_lost_details]++;
}

static void read_sizes(struct reading *reading, const struct live_site_counters *counters,
		       struct site_counters_row *row)
{
	uint32_t reference = LIVE_LOAD_LAST(counters->sizes);
	const void *pool = NULL;
	bool many = reference & LIVE_SIZES_MANY;
	size_t at = reading->rows->bar_count;

	row->sizes_at = (uint32_t)at;
	if (row->calls == 0)
		return;
	if (reference != 0) {
		pool = live_view_pool(
			&reading->view, reading->pool_used, reference & ~LIVE_SIZES_MANY,
			many ? sizeof(struct live_sizes_many) : sizeof(struct live_sizes_few));
		if (!pool)
			lost_detail(reading);
	}
	if (many && pool)
		read_many_sizes(reading, pool);
	else if (pool || reference == 0)
		read_few_sizes(reading, pool, LIVE_LOAD(counters->first_size), row->calls);
	row->sizes_count = (uint32_t)(reading->rows->bar_count - at);
}

static void read_lifetimes(struct reading *reading, const struct live_site_counters *counters,
			   struct site_counters_row *row)
{
	uint32_t reference = LIVE_LOAD_LAST(counters->lifetimes);
	const struct live_lifetimes *lifetimes =
		live_view_pool(&reading->view, reading->pool_used, reference, sizeof *lifetimes);
	uint64_t count[LIVE_LIFETIME_BUCKETS];
	uint64_t rest = saturating_sub(row->frees, LIVE_LOAD(counters->unaged_frees));
	size_t at = reading->rows->bar_count;

	row->lifetimes_at = (uint32_t)at;
	if (reference != 0 && !lifetimes)
		lost_detail(reading);
	for (unsigned i = 0; i < LIVE_LIFETIME_BUCKETS && lifetimes; i++) {
		count[i] = LIVE_LOAD(lifetimes->count[i]);
		rest = saturating_sub(rest, count[i]);
	}
	if (lifetimes)
		row->lifetime_ms_sum = LIVE_LOAD(lifetimes->sum_ms);
	add_bar(reading, 0, 1, rest);
	for (unsigned i = 0; i < LIVE_LIFETIME_BUCKETS && lifetimes; i++)
		add_bar(reading, 1ull << i, i + 1 < LIVE_LIFETIME_BUCKETS ? 2ull << i : UINT64_MAX,
			count[i]);
	row->lifetimes_count = (uint32_t)(reading->rows->bar_count - at);
}

/* Copies a detail that site counters refer to, if any. */
static void read_detail(struct reading *reading, uint32_t reference, void *ret, size_t bytes)
{
	const void *detail =
		reference ? live_view_pool(&reading->view, reading->pool_used, reference, bytes)
			  : NULL;

	if (detail)
		memcpy(ret, detail, bytes);
	else if (reference)
		lost_detail(reading);
}

/* doc: peak. The counters of the row were loaded before: a change of them is saved first, and then its epoch. */
static void read_peak(struct live_peak_rule rule, const struct live_site_counters *counters,
		      struct site_counters_row *row)
{
	row->peak_bytes = (int64_t)(row->bytes - row->freed_bytes);
	row->peak_blocks = (int64_t)(row->calls - row->frees);
	live_view_fence();
	if (rule.rising || LIVE_LOAD_LAST(counters->epoch) != rule.epoch)
		return;
	row->peak_bytes = LIVE_LOAD(counters->peak_bytes);
	row->peak_blocks = LIVE_LOAD(counters->peak_blocks);
}

/* First pass: frees. Counters that appear later count as having none. */
static void load_frees(const struct live_site_counters *site_counters, size_t count,
		       struct site_counters_row *to)
{
	for (size_t i = 0; i < count; i++)
		to[i] = (struct site_counters_row){
			.frees = LIVE_LOAD(site_counters[i].frees),
			.freed_bytes = LIVE_LOAD(site_counters[i].freed_bytes),
			.freed_fragmentation = LIVE_LOAD(site_counters[i].freed_fragmentation),
		};
}

/* Second pass: allocations, and their site. */
static void load_calls(const struct live_site_counters *site_counters, size_t count,
		       struct live_peak_rule rule, struct site_counters_row *to)
{
	for (size_t i = 0; i < count; i++) {
		const struct live_site_counters *counters = &site_counters[i];
		struct site_counters_row *row = &to[i];

		row->site = LIVE_LOAD_LAST(counters->site);
		row->slot = LIVE_LOAD(counters->thread);
		row->calls = LIVE_LOAD(counters->calls);
		row->bytes = LIVE_LOAD(counters->bytes);
		row->temporary = LIVE_LOAD(counters->temporary);
		row->fragmentation = LIVE_LOAD(counters->fragmentation);
		row->max_bytes = LIVE_LOAD(counters->max_bytes);
		read_peak(rule, counters, row);
	}
}

/* Loads all site counters, by number. Returns how many. Retries if a new peak started meanwhile; after the last try the values
 * are used as they are. */
static size_t load_site_counters(struct reading *reading)
{
	const struct live_peak *peak = &reading->view.header->peak;
	const struct live_site_counters *site_counters =
		live_view_at(&reading->view, LIVE_SITE_COUNTERS);
	size_t first = live_view_used(&reading->view, LIVE_SITE_COUNTERS), count = 0;
	size_t room = first + first / 8 + 256;
	uint32_t state;

	struct site_counters_row *rows = malloc((room + 1) * sizeof *rows);

	reading->rows->site_counters = rows;
	reading->no_memory |= !rows;
	if (reading->no_memory)
		return 0;
	for (unsigned attempt = 0; attempt < 4; attempt++) {
		state = __atomic_load_n(&peak->state, __ATOMIC_ACQUIRE);
		first = MIN(live_view_used(&reading->view, LIVE_SITE_COUNTERS), room);
		load_frees(site_counters, first, rows);
		live_view_fence();
		count = MIN(live_view_used(&reading->view, LIVE_SITE_COUNTERS), room);
		if (count > first)
			memset(rows + first, 0, (count - first) * sizeof *rows);
		load_calls(site_counters, count, live_peak_rule_of(state), rows);
		live_view_fence();
		if (LIVE_LOAD(peak->state) == state)
			break;
	}
	return count;
}

static void read_site_counters(struct reading *reading, size_t count)
{
	struct process_rows *rows = reading->rows;
	const struct live_site_counters *site_counters =
		live_view_at(&reading->view, LIVE_SITE_COUNTERS);

	reading->pool_used = live_view_used(&reading->view, LIVE_POOL);
	for (size_t i = 0; i < count && !reading->no_memory; i++) {
		struct site_counters_row row = rows->site_counters[i];

		/* A thread that unmaps part of another thread's mapping has freed bytes, but no freed block. */
		if (row.site == 0 || (row.calls == 0 && row.frees == 0 && row.freed_bytes == 0))
			continue;
		if (row.site >= rows->site_count)
			row.site = LIVE_SITE_OTHER_HEAP;
		if (row.slot >= LIVE_SLOTS_MAX)
			row.slot = 0;
		if (!reading->leaves_out_bars) {
			read_sizes(reading, &site_counters[i], &row);
			read_lifetimes(reading, &site_counters[i], &row);
		}
		read_detail(reading, LIVE_LOAD_LAST(site_counters[i].reallocs), &row.reallocs,
			    sizeof row.reallocs);
		read_detail(reading, LIVE_LOAD_LAST(site_counters[i].samples), &row.samples,
			    sizeof row.samples);
		rows->site_counters[rows->site_counters_count++] = row;
	}
}

/* How far the live numbers of the heap may be off. While rising, they are the peak. */
static void take_moves(struct reading *reading, const struct live_table_moves *table)
{
	struct process_rows *rows = reading->rows;
	const struct live_site_counters *site_counters =
		live_view_at(&reading->view, LIVE_SITE_COUNTERS);
	size_t count = live_view_used(&reading->view, LIVE_SITE_COUNTERS);
	struct live_moves moves = { 0 };

	for (size_t i = 0; i < table->count && !reading->no_memory; i++) {
		uint32_t site = i < count ? LIVE_LOAD(site_counters[i].site) : 0;

		if (i >= count)
			live_moves_add_missing(&moves, table->at[i]);
		else if (site >= rows->site_count || rows->sites[site].kind == LIVE_KIND_HEAP)
			live_moves_add_one(&moves, table->at[i]);
	}
	rows->process.live_bound_bytes = live_moves_bound(&moves).bytes;
	rows->process.live_bound_blocks = live_moves_bound(&moves).blocks;
	if (live_peak_rule_of(LIVE_LOAD(reading->view.header->peak.state)).rising)
		rows->process.peak_bound_bytes = saturating_add(rows->process.peak_bound_bytes,
								rows->process.live_bound_bytes);
}

static void sum_site_counters(struct process_rows *rows)
{
	struct process_row *process = &rows->process;
	uint64_t peak_bytes = 0, peak_blocks = 0, other_calls = 0;

	for (size_t i = 0; i < rows->site_counters_count; i++) {
		const struct site_counters_row *row = &rows->site_counters[i];

		if (rows->sites[row->site].node == LIVE_FRAME_OTHER)
			other_calls += row->calls;
		if (rows->sites[row->site].kind == LIVE_KIND_MMAP) {
			process->map_calls += row->calls;
			process->map_bytes += row->bytes;
			process->unmap_calls += row->frees;
			process->unmap_bytes += row->freed_bytes;
		}
		if (rows->sites[row->site].kind != LIVE_KIND_HEAP)
			continue; /* pools are inside memory of the other kinds */
		process->calls += row->calls;
		process->bytes += row->bytes;
		process->frees += row->frees;
		process->freed_bytes += row->freed_bytes;
		process->temporary += row->temporary;
		process->fragmentation += row->fragmentation;
		process->freed_fragmentation += row->freed_fragmentation;
		peak_bytes += (uint64_t)row->peak_bytes;
		peak_blocks += (uint64_t)row->peak_blocks;
	}
	/* The recorder counts a stack that it could not store once, at the lookup, not for each repeated call. */
	process->health[HEALTH_unsited_calls] =
		MAX(process->health[HEALTH_unsited_calls], other_calls);
	process->peak_bytes = (int64_t)peak_bytes > 0 ? peak_bytes : 0;
	process->peak_blocks = (int64_t)peak_blocks > 0 ? peak_blocks : 0;
}

/* ---- threads ---- */

/* The totals of a slot when its next owner took it, or now. Walking the log backwards, the difference to the totals when a
 * thread took the slot belongs to that thread. */
struct slot_totals {
	uint64_t calls, bytes, frees, freed_bytes;
	uint64_t passed_calls, passed_bytes;
	bool passed_known;
};

/* The countdown may be changing, or have been changing when the process was killed. */
static void read_passed(const struct live_countdown *countdown, struct slot_totals *totals)
{
	enum { TRIES = 100 };

	for (int i = 0; i < TRIES && !totals->passed_known; i++) {
		uint64_t changes = __atomic_load_n(&countdown->changes, __ATOMIC_ACQUIRE);

		totals->passed_calls = LIVE_LOAD(countdown->calls);
		totals->passed_bytes = LIVE_LOAD(countdown->allotted) - LIVE_LOAD(countdown->left);
		live_view_fence();
		totals->passed_known = changes % 2 == 0 && changes == LIVE_LOAD(countdown->changes);
	}
}

static void sum_passed(struct process_row *process, const struct slot_totals *slots, size_t count)
{
	bool known = true;

	process->all_calls = process->calls;
	process->all_bytes = process->bytes;
	for (size_t i = 0; i < count; i++) {
		known &= slots[i].passed_known;
		process->all_calls += slots[i].passed_calls;
		process->all_bytes += slots[i].passed_bytes;
	}
	if (!known)
		process->all_calls = process->all_bytes = 0;
}

static void read_thread(const struct live_thread *from, struct slot_totals *until,
			struct thread_row *row)
{
	struct slot_totals at = { .calls = from->calls,
				  .bytes = from->bytes,
				  .frees = from->frees,
				  .freed_bytes = from->freed_bytes,
				  .passed_calls = from->passed_calls,
				  .passed_bytes = from->passed_bytes,
				  .passed_known = true };

	*row = (struct thread_row){
		.tid = from->tid,
		.slot = from->counted_as < LIVE_SLOTS_MAX ? from->counted_as : 0,
		.started_ns = ns_of(from->started_ms),
		.calls = saturating_sub(until->calls, at.calls),
		.bytes = saturating_sub(until->bytes, at.bytes),
		.frees = saturating_sub(until->frees, at.frees),
		.freed_bytes = saturating_sub(until->freed_bytes, at.freed_bytes),
	};
	if (until->passed_known) {
		row->all_calls = row->calls + (until->passed_calls - at.passed_calls);
		row->all_bytes = row->bytes + (until->passed_bytes - at.passed_bytes);
	}
	memcpy(row->name, from->name, strnlen(from->name, sizeof row->name - 1));
	*until = at;
}

static void read_threads(struct reading *reading)
{
	struct process_rows *rows = reading->rows;
	const struct live_thread *threads = live_view_at(&reading->view, LIVE_THREADS);
	const struct live_slot *slots = live_view_at(&reading->view, LIVE_SLOTS);
	size_t count = live_view_used(&reading->view, LIVE_THREADS);
	size_t slot_count = live_view_used(&reading->view, LIVE_SLOTS);
	struct slot_totals *until = new_rows(reading, slot_count, sizeof *until);

	rows->threads = new_rows(reading, count, sizeof *rows->threads);
	if (!reading->no_memory) {
		for (size_t i = 0; i < slot_count; i++) {
			until[i] = (struct slot_totals){ .calls = LIVE_LOAD(slots[i].calls),
							 .bytes = LIVE_LOAD(slots[i].bytes),
							 .frees = LIVE_LOAD(slots[i].frees),
							 .freed_bytes =
								 LIVE_LOAD(slots[i].freed_bytes) };
			read_passed(&slots[i].countdown, &until[i]);
		}
		sum_passed(&rows->process, until, slot_count);
		for (size_t i = count; i-- > 0;) {
			struct live_thread from;
			struct slot_totals none = { 0 };
			size_t slot;

			if (LIVE_LOAD_LAST(threads[i].tid) == 0)
				continue; /* not published yet */
			memcpy(&from, &threads[i], sizeof from);
			slot = from.slot;
			read_thread(&from, slot < slot_count ? &until[slot] : &none,
				    &rows->threads[i]);
		}
		rows->thread_count = count;
	}
	free(until);
}

/* One thread's remote frees of blocks of a kind: a row for each owner, and one for the rest, without an owner. */
static void read_remote_frees_of(struct reading *reading, const struct live_thread *freer,
				 uint32_t number, uint32_t kind)
{
	struct process_rows *rows = reading->rows;
	const struct live_owners *owners = live_view_pool(
		&reading->view, reading->pool_used, LIVE_LOAD_LAST(freer->owners), sizeof *owners);
	struct remote_frees_row rest = { .freer = number,
					 .owner = UINT32_MAX,
					 .kind = kind,
					 .blocks = LIVE_LOAD(freer->remote[kind].blocks),
					 .bytes = LIVE_LOAD(freer->remote[kind].bytes) };

	for (unsigned i = 0; owners && i < LIVE_OWNERS; i++) {
		uint32_t owner = LIVE_LOAD_LAST(owners->entry[i].thread);
		struct remote_frees_row row = { .freer = number,
						.owner = owner - 1,
						.kind = LIVE_LOAD(owners->entry[i].kind),
						.blocks = LIVE_LOAD(owners->entry[i].blocks),
						.bytes = LIVE_LOAD(owners->entry[i].bytes) };

		if (row.kind != kind || row.owner >= LIVE_SLOTS_MAX || (!row.blocks && !row.bytes))
			continue;
		rows->remote_frees[rows->remote_frees_count++] = row;
		rest.blocks = saturating_sub(rest.blocks, row.blocks);
		rest.bytes = saturating_sub(rest.bytes, row.bytes);
	}
	if (rest.blocks || rest.bytes)
		rows->remote_frees[rows->remote_frees_count++] = rest;
}

static bool freed_for_others(const struct live_thread *thread)
{
	uint64_t sum = 0;

	for (uint32_t kind = 0; kind < LIVE_MEMORY_KINDS; kind++)
		sum |= LIVE_LOAD(thread->remote[kind].blocks) |
		       LIVE_LOAD(thread->remote[kind].bytes);
	return sum != 0;
}

static void read_remote_frees(struct reading *reading)
{
	enum { MOST = LIVE_MEMORY_KINDS * (LIVE_OWNERS + 1) };
	struct process_rows *rows = reading->rows;
	const struct live_thread *threads = live_view_at(&reading->view, LIVE_THREADS);
	size_t count = MIN(live_view_used(&reading->view, LIVE_THREADS), (size_t)LIVE_SLOTS_MAX);
	size_t room = 0;

	for (size_t i = 0; i < count; i++)
		room += freed_for_others(&threads[i]) ? MOST : 0;
	rows->remote_frees = new_rows(reading, room, sizeof *rows->remote_frees);
	for (size_t i = 0; i < count && !reading->no_memory; i++) {
		if (!freed_for_others(&threads[i]))
			continue;
		for (uint32_t kind = 0;
		     kind < LIVE_MEMORY_KINDS && rows->remote_frees_count + LIVE_OWNERS < room;
		     kind++)
			read_remote_frees_of(reading, &threads[i], (uint32_t)i, kind);
	}
}

static void read_process(struct reading *reading)
{
	const struct live_header *header = reading->view.header;
	struct process_row *process = &reading->rows->process;
	char allocator[sizeof header->allocator];

	memcpy(allocator, header->allocator, sizeof allocator);
	process->pid = LIVE_LOAD(header->pid);
	process->granule_bytes =
		1ull << MIN(LIVE_LOAD(header->granule_shift), (uint32_t)LIVE_SMALL_SHIFT);
	process->depth_limit = LIVE_LOAD(header->depth_limit);
	process->own_bytes = LIVE_LOAD(header->opened_bytes);
	process->map_peak_bytes = LIVE_LOAD(header->map_peak_bytes);
	process->peak_at_ns = ns_of(LIVE_LOAD(header->peak.peak_ms));
	process->peak_bound_bytes =
		LIVE_LOAD(header->peak.shared) ? LIVE_LOAD(header->peak.bound_bytes) : 0;
	for (size_t i = 0; i < HEALTH_COUNT; i++)
		process->health[i] = LIVE_LOAD(header->health[i]);
	process->command = new_text(reading, "", 0);
	process->exe = new_text(reading, "", 0);
	process->allocator = new_text(reading, allocator, strnlen(allocator, sizeof allocator));
}

/* The newest heap site shows the mode that recorded last. */
static uint32_t last_mode(const struct process_rows *rows, uint32_t mode_now)
{
	for (size_t i = rows->site_count; i > LIVE_SITE_FIRST; i--)
		if (rows->sites[i - 1].kind == LIVE_KIND_HEAP)
			return rows->sites[i - 1].interval ? LIVE_MODE_SAMPLE : LIVE_MODE_EXACT;
	return mode_now;
}

static int read_rows(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		     uint32_t mode_now, bool leaves_out_bars, struct process_rows *ret,
		     struct format_error *error)
{
	struct process_rows rows = { 0 };
	struct reading reading = { .rows = &rows, .leaves_out_bars = leaves_out_bars };
	const char *reason = live_view_init(&reading.view, memory, mapped_bytes);
	size_t counters_count;

	if (reason)
		return format_fail(error, "%s", reason);
	read_process(&reading);
	counters_count = load_site_counters(&reading);
	read_stacks(&reading);
	read_site_counters(&reading, counters_count);
	sum_site_counters(&rows);
	if (moves)
		take_moves(&reading, &moves->site_counters);
	read_threads(&reading);
	read_remote_frees(&reading);
	if (!leaves_out_bars && live_read_pairs(&reading.view, &rows) < 0)
		reading.no_memory = true;
	if (reading.no_memory) {
		process_rows_release(&rows);
		return format_fail(error, "out of memory");
	}
	rows.process.mode = last_mode(&rows, mode_now);
	*ret = rows;
	return 0;
}

int live_read_rows(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		   uint32_t mode_now, struct process_rows *ret, struct format_error *error)
{
	return read_rows(memory, mapped_bytes, moves, mode_now, false, ret, error);
}

int live_read_sums(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		   uint32_t mode_now, struct process_rows *ret, struct format_error *error)
{
	return read_rows(memory, mapped_bytes, moves, mode_now, true, ret, error);
}
