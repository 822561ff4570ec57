/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks with a single row: the run (with the processes that were missed) and each process. Numbers are a table of one row
 * in a fixed order, so that a later version can append; then texts; then health counters by name, so that their order may
 * change. Pure functions; any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "format/recording/chunks.h"

/* doc: chunk_run */
static const struct field run_fields[] = {
	FIELD(struct run_row, started_real_ns),	 FIELD(struct run_row, duration_ns),
	FIELD(struct run_row, peak_bytes),	 FIELD(struct run_row, peak_at_ns),
	FIELD(struct run_row, peak_bound_bytes),
};

static const struct field missed_fields[] = {
	FIELD(struct missed_row, reason),
	FIELD(struct missed_row, count),
};

void chunk_run_put(struct payload *out, const struct run_row *run)
{
	table_put(out, TABLE_SHAPE(struct run_row, run_fields), run, 1);
	bytes_put_text(&out->bytes, run->host);
	bytes_put_text(&out->bytes, run->kernel);
	bytes_put_text(&out->bytes, run->version);
	bytes_put_text(&out->bytes, run->command);
	table_put(out, TABLE_SHAPE(struct missed_row, missed_fields), run->missed,
		  run->missed_count);
	for (size_t i = 0; i < run->missed_count; i++)
		bytes_put_text(&out->bytes, run->missed[i].path);
	bytes_put_text(&out->bytes, run->own_code);
	bytes_put_text(&out->bytes, run->options);
}

/* Reads a table of one row into *ret. False: the cursor has failed. */
static bool get_one(struct source *in, struct table_shape shape, void *ret)
{
	size_t count;
	void *row = table_get(in, shape, &count);

	if (count == 1)
		memcpy(ret, row, shape.row_bytes);
	else
		cursor_fail(&in->cursor);
	free(row);
	return !in->cursor.failed;
}

/* Since 1.2. */
static void get_missed(struct source *in, struct run_row *run)
{
	if (in->cursor.failed || cursor_left(&in->cursor) == 0)
		return;
	run->missed =
		table_get(in, TABLE_SHAPE(struct missed_row, missed_fields), &run->missed_count);
	for (size_t i = 0; i < run->missed_count; i++) {
		run->missed[i].path = source_text(in);
		if (run->missed[i].reason >= MISSED_COUNT)
			run->missed[i].reason = MISSED_unconnected; /* from a newer version */
	}
}

void chunk_run_get(struct source *in, struct run_row *run)
{
	if (!get_one(in, TABLE_SHAPE(struct run_row, run_fields), run))
		return;
	run->host = source_text(in);
	run->kernel = source_text(in);
	run->version = source_text(in);
	run->command = source_text(in);
	get_missed(in, run);
	if (!in->cursor.failed && cursor_left(&in->cursor) > 0) /* since 1.8 */
		run->own_code = source_text(in);
	if (!in->cursor.failed && cursor_left(&in->cursor) > 0) /* since 1.9 */
		run->options = source_text(in);
}

/* doc: chunk_process */
#define PROCESS_FIELD(name) FIELD(struct process_row, name)
static const struct field process_fields[] = {
	PROCESS_FIELD(pid),
	PROCESS_FIELD(ppid),
	PROCESS_FIELD(mode),
	PROCESS_FIELD(end),
	PROCESS_FIELD(exit_code),
	PROCESS_FIELD(started_real_ns),
	PROCESS_FIELD(started_offset_ns),
	PROCESS_FIELD(duration_ns),
	PROCESS_FIELD(calls),
	PROCESS_FIELD(bytes),
	PROCESS_FIELD(frees),
	PROCESS_FIELD(freed_bytes),
	PROCESS_FIELD(temporary),
	PROCESS_FIELD(fragmentation),
	PROCESS_FIELD(freed_fragmentation),
	PROCESS_FIELD(map_calls),
	PROCESS_FIELD(map_bytes),
	PROCESS_FIELD(unmap_calls),
	PROCESS_FIELD(unmap_bytes),
	PROCESS_FIELD(map_peak_bytes),
	PROCESS_FIELD(peak_bytes),
	PROCESS_FIELD(peak_blocks),
	PROCESS_FIELD(peak_at_ns),
	PROCESS_FIELD(peak_bound_bytes),
	PROCESS_FIELD(peak_rss_bytes),
	PROCESS_FIELD(own_bytes),
	PROCESS_FIELD(granule_bytes),
	PROCESS_FIELD(depth_limit),
	PROCESS_FIELD(uid),	  /* since 1.6 */
	PROCESS_FIELD(all_calls), /* since 1.7 */
	PROCESS_FIELD(all_bytes),
	PROCESS_FIELD(rss_bytes), /* since 1.11 */
	PROCESS_FIELD(live_bound_bytes),
	PROCESS_FIELD(live_bound_blocks),
	PROCESS_FIELD(peak_file_bytes),
};

void chunk_process_put(struct payload *out, const struct process_rows *rows)
{
	const struct process_row *row = &rows->process;
	size_t counters = 0;

	table_put(out, TABLE_SHAPE(struct process_row, process_fields), row, 1);
	bytes_put_text(&out->bytes, row->command);
	bytes_put_text(&out->bytes, row->exe);
	bytes_put_text(&out->bytes, row->allocator);
	for (size_t i = 0; i < HEALTH_COUNT; i++)
		counters += row->health[i] != 0;
	bytes_put_varint(&out->bytes, counters);
	for (size_t i = 0; i < HEALTH_COUNT; i++) {
		if (row->health[i] == 0)
			continue;
		bytes_put_text(&out->bytes, health_rows[i].name);
		bytes_put_varint(&out->bytes, row->health[i]);
	}
	bytes_put_text(&out->bytes, row->linked_in);
	bytes_put_varint(&out->bytes, row->rank);
}

/* Maps a counter that this version does not know to lost details. */
static enum health_counter health_by_name(struct span name)
{
	for (unsigned i = 0; i < HEALTH_COUNT; i++) {
		if (span_equal(name, span_of(health_rows[i].name, strlen(health_rows[i].name))))
			return (enum health_counter)i;
	}
	return HEALTH_lost_details;
}

static void get_health(struct source *in, struct process_row *row)
{
	uint64_t counters = cursor_varint(&in->cursor);

	for (uint64_t i = 0; i < counters && !in->cursor.failed; i++) {
		struct span name = cursor_counted(&in->cursor);

		row->health[health_by_name(name)] += cursor_varint(&in->cursor);
	}
}

void chunk_process_get(struct source *in, struct process_rows *rows)
{
	struct process_row *row = &rows->process;

	if (!get_one(in, TABLE_SHAPE(struct process_row, process_fields), row))
		return;
	row->command = source_text(in);
	row->exe = source_text(in);
	row->allocator = source_text(in);
	get_health(in, row);
	if (!in->cursor.failed && cursor_left(&in->cursor) > 0)
		row->linked_in = source_text(in); /* since 1.3 */
	if (!in->cursor.failed && cursor_left(&in->cursor) > 0)
		row->rank = (uint32_t)MIN(cursor_varint(&in->cursor), (uint64_t)UINT32_MAX);
	if (row->end > END_UNKNOWN)
		row->end = END_UNKNOWN; /* from a newer version */
}
