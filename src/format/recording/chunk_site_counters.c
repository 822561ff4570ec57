/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Site counters, each of one site in one slot, with their distributions, and the ages of live blocks.
 *
 * Most rows are simple: all calls requested one size, all blocks were freed, none lived long. So a row stores its first size,
 * and the other numbers as residuals to what that size predicts; a distribution that can be derived from the counters is not
 * stored. All predictions are exact arithmetic modulo 2^64: any numbers decode to what was encoded. Pure functions; any thread.
 * Invariant: after reading, row.site is a valid site, and the bars of a row follow those of the previous row.
 */
#include <stdlib.h>
#include <string.h>

#include "format/recording/chunks.h"

/* A number that is mostly 0 or mostly equal to another one. */
enum same_as { SAME_ZERO = 0, SAME_OTHER = 1, SAME_NEITHER = 2 };

/* The number of bars of a row: none, one derived from its counters, or 2 + the number of stored ones. */
enum bars_code { BARS_NONE = 0, BARS_DERIVED = 1, BARS_STORED = 2 };

/* doc: chunk_site_counters */
struct counters_columns {
	uint64_t site, slot, calls, size, bytes, live_blocks, freed_bytes;
	uint64_t peak_same, peak_blocks, peak_bytes, max_bytes;
	uint64_t temporary_same, temporary, fragmentation, freed_fragmentation, lifetime_ms_sum;
	uint64_t size_bars, lifetime_bars;
	uint64_t reallocs[7], samples[6]; /* live_reallocs and live_samples */
};
#define COUNTERS_SHAPE U64_SHAPE(struct counters_columns, sizeof(struct counters_columns))
_Static_assert(offsetof(struct live_reallocs, pad) ==
		       sizeof(((struct counters_columns *)0)->reallocs),
	       "all of its counters are columns");
_Static_assert(offsetof(struct live_samples, pad) ==
		       sizeof(((struct counters_columns *)0)->samples),
	       "all of its counters are columns");

/* A stored bar: bucket number + 1, or 0 and its bounds. */
struct bar_columns {
	uint64_t bucket, low, width, count;
};
#define BAR_SHAPE U64_SHAPE(struct bar_columns, sizeof(struct bar_columns))

typedef struct bar bucket_bounds(unsigned bucket);

static struct bar size_bounds(unsigned bucket)
{
	return (struct bar){ .low = live_size_bucket_floor(bucket),
			     .high = live_size_bucket_last(bucket) };
}

/* The lifetime buckets that have a number; the last is open-ended. Newer recorders have more: those are stored by their bounds. */
enum { LIFETIME_BUCKETS = 32 };
static struct bar lifetime_bounds(unsigned bucket)
{
	return (struct bar){ .low = bucket ? 1ull << (bucket - 1) : 0,
			     .high = bucket + 1 < LIFETIME_BUCKETS ? 1ull << bucket : UINT64_MAX };
}

/* The kinds of distributions of a row. */
struct bars_kind {
	bucket_bounds *bounds;
	unsigned buckets;
};
static const struct bars_kind size_kind = { size_bounds, LIVE_SIZE_BUCKETS };
static const struct bars_kind lifetime_kind = { lifetime_bounds, LIFETIME_BUCKETS };

/* total / calls * part; exact if part is all calls. */
static uint64_t share_of(uint64_t total, uint64_t calls, uint64_t part)
{
	if (calls == part)
		return total;
	return calls ? total / calls * part : 0;
}

/* The internal fragmentation of glibc; only a prediction. */
static uint64_t usual_fragmentation(uint64_t size)
{
	uint64_t usable = ((size + 8 + 15) & ~15ull) - 8;

	return MAX(usable, (uint64_t)24) - size;
}

static uint64_t usual_max(const struct site_counters_row *row, uint64_t size)
{
	int64_t live = (int64_t)(row->bytes - row->freed_bytes);
	int64_t most = MAX(live, row->peak_bytes);

	return (uint64_t)MAX(most, row->calls ? (int64_t)size : 0);
}

static enum same_as same_put(uint64_t value, uint64_t other, uint64_t *ret_rest)
{
	*ret_rest = 0;
	if (value == 0)
		return SAME_ZERO;
	if (value == other)
		return SAME_OTHER;
	*ret_rest = residual_put(value, 0);
	return SAME_NEITHER;
}

static uint64_t same_get(uint64_t same, uint64_t rest, uint64_t other)
{
	if (same == SAME_ZERO)
		return 0;
	return same == SAME_OTHER ? other : residual_get(rest, 0);
}

static uint64_t bars_code(const struct bar *bars, size_t count, struct bar derived)
{
	if (count == 0)
		return BARS_NONE;
	if (count == 1 && bars[0].low == derived.low && bars[0].high == derived.high &&
	    bars[0].count == derived.count)
		return BARS_DERIVED;
	return BARS_STORED + count;
}

static struct bar derived_size(const struct site_counters_row *row, uint64_t size)
{
	return (struct bar){ .low = size, .high = size, .count = row->calls };
}

static struct bar derived_lifetime(const struct site_counters_row *row)
{
	return (struct bar){ .low = 0, .high = 1, .count = row->frees };
}

static void row_to_columns(const struct site_counters_row *row, const struct bar *bars,
			   struct counters_columns *to)
{
	const struct bar *sizes = row->sizes_count ? bars + row->sizes_at : NULL;
	const struct bar *lifetimes = row->lifetimes_count ? bars + row->lifetimes_at : NULL;
	uint64_t size = sizes ? sizes[0].low : 0;
	uint64_t mean = site_counters_mean_size(row);

	*to = (struct counters_columns){
		.site = row->site,
		.slot = row->slot,
		.calls = row->calls,
		.size = size,
		.bytes = residual_put(row->bytes, row->calls * size),
		.live_blocks = residual_put(row->calls, row->frees),
		.freed_bytes = residual_put(row->freed_bytes,
					    share_of(row->bytes, row->calls, row->frees)),
		.peak_bytes =
			residual_put((uint64_t)row->peak_bytes, (uint64_t)row->peak_blocks * mean),
		.max_bytes = residual_put(row->max_bytes, usual_max(row, size)),
		.fragmentation =
			residual_put(row->fragmentation, row->calls * usual_fragmentation(size)),
		.freed_fragmentation =
			residual_put(row->freed_fragmentation,
				     share_of(row->fragmentation, row->calls, row->frees)),
		.lifetime_ms_sum = row->lifetime_ms_sum,
		.size_bars = bars_code(sizes, row->sizes_count, derived_size(row, size)),
		.lifetime_bars = bars_code(lifetimes, row->lifetimes_count, derived_lifetime(row)),
	};
	memcpy(to->reallocs, &row->reallocs, sizeof to->reallocs);
	memcpy(to->samples, &row->samples, sizeof to->samples);
	to->peak_same =
		same_put((uint64_t)row->peak_blocks, row->calls - row->frees, &to->peak_blocks);
	to->temporary_same = same_put(row->temporary, row->frees, &to->temporary);
}

static void row_from_columns(const struct counters_columns *from, struct site_counters_row *row)
{
	uint64_t calls = from->calls, size = from->size;

	*row = (struct site_counters_row){
		.site = (uint32_t)from->site,
		.slot = (uint32_t)from->slot,
		.calls = calls,
		.bytes = residual_get(from->bytes, calls * size),
		.frees = calls - residual_get(from->live_blocks, 0),
		.lifetime_ms_sum = from->lifetime_ms_sum,
	};
	memcpy(&row->reallocs, from->reallocs, sizeof from->reallocs);
	memcpy(&row->samples, from->samples, sizeof from->samples);
	row->freed_bytes = residual_get(from->freed_bytes, share_of(row->bytes, calls, row->frees));
	row->peak_blocks =
		(int64_t)same_get(from->peak_same, from->peak_blocks, calls - row->frees);
	row->peak_bytes = (int64_t)residual_get(
		from->peak_bytes, (uint64_t)row->peak_blocks * site_counters_mean_size(row));
	row->max_bytes = residual_get(from->max_bytes, usual_max(row, size));
	row->temporary = same_get(from->temporary_same, from->temporary, row->frees);
	row->fragmentation = residual_get(from->fragmentation, calls * usual_fragmentation(size));
	row->freed_fragmentation = residual_get(from->freed_fragmentation,
						share_of(row->fragmentation, calls, row->frees));
}

/* The sum of all counts but the first, which is derived from the total. */
static uint64_t sum_of_others(const struct bar *bars, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 1; i < count; i++)
		sum += bars[i].count;
	return sum;
}

static void bars_put(struct bar_columns *to, const struct bars_kind *kind, const struct bar *bars,
		     size_t count, uint64_t total)
{
	for (size_t i = 0; i < count; i++) {
		unsigned bucket = 0;

		while (bucket < kind->buckets && (kind->bounds(bucket).low != bars[i].low ||
						  kind->bounds(bucket).high != bars[i].high))
			bucket++;
		to[i].count = bars[i].count;
		if (bucket < kind->buckets) {
			to[i].bucket = bucket + 1;
		} else {
			to[i].low = bars[i].low;
			to[i].width = bars[i].high - bars[i].low;
		}
	}
	to[0].count = residual_put(bars[0].count, total - sum_of_others(bars, count));
}

static bool bars_get(const struct bar_columns *from, const struct bars_kind *kind, struct bar *bars,
		     size_t count, uint64_t total)
{
	for (size_t i = 0; i < count; i++) {
		if (from[i].bucket > kind->buckets)
			return false;
		if (from[i].bucket)
			bars[i] = kind->bounds((unsigned)from[i].bucket - 1);
		else
			bars[i] = (struct bar){ .low = from[i].low,
						.high = from[i].low + from[i].width };
		bars[i].count = from[i].count;
	}
	bars[0].count = residual_get(from[0].count, total - sum_of_others(bars, count));
	return true;
}

static size_t stored_bars(uint64_t code)
{
	return code >= BARS_STORED ? (size_t)(code - BARS_STORED) : 0;
}

void chunk_site_counters_put(struct payload *out, const struct process_rows *rows)
{
	struct counters_columns *columns =
		columns_new(out, rows->site_counters_count, sizeof *columns);
	struct bar_columns *stored = columns_new(out, rows->bar_count, sizeof *stored);
	size_t used = 0;

	for (size_t i = 0; i < rows->site_counters_count && !out->bytes.failed; i++) {
		const struct site_counters_row *row = &rows->site_counters[i];
		size_t sizes, lifetimes;

		row_to_columns(row, rows->bars, &columns[i]);
		sizes = stored_bars(columns[i].size_bars);
		lifetimes = stored_bars(columns[i].lifetime_bars);
		if (sizes)
			bars_put(stored + used, &size_kind, rows->bars + row->sizes_at, sizes,
				 row->calls);
		used += sizes;
		if (lifetimes)
			bars_put(stored + used, &lifetime_kind, rows->bars + row->lifetimes_at,
				 lifetimes, row->frees);
		used += lifetimes;
		ASSERT(used <= rows->bar_count);
	}
	table_put(out, COUNTERS_SHAPE, columns, rows->site_counters_count);
	table_put(out, BAR_SHAPE, stored, used);
	payload_cost(out, rows->site_counters_count, sizeof *rows->site_counters);
	payload_cost(out, rows->bar_count + 1, sizeof *rows->bars);
	free(stored);
	free(columns);
}

static size_t bars_of_code(uint64_t code)
{
	return code == BARS_DERIVED ? 1 : stored_bars(code);
}

/* Counts the bars of all rows; fails the source if more are used than stored. */
static size_t count_bars(struct source *in, const struct counters_columns *columns, size_t count,
			 size_t stored)
{
	size_t all = 0, from_table = 0;

	for (size_t i = 0; i < count; i++) {
		size_t sizes = stored_bars(columns[i].size_bars);
		size_t lifetimes = stored_bars(columns[i].lifetime_bars);

		if (sizes > stored - from_table || lifetimes > stored - from_table - sizes) {
			cursor_fail(&in->cursor);
			return 0;
		}
		from_table += sizes + lifetimes;
		all += bars_of_code(columns[i].size_bars) + bars_of_code(columns[i].lifetime_bars);
	}
	if (all > UINT32_MAX)
		cursor_fail(&in->cursor);
	return all;
}

/* Fills the bars of one kind in one row. False if they are not valid. */
static bool fill_bars(const struct bars_kind *kind, uint64_t code, struct bar derived,
		      uint64_t total, const struct bar_columns **from, struct bar *to)
{
	size_t stored = stored_bars(code);

	if (code == BARS_DERIVED)
		to[0] = derived;
	if (stored == 0)
		return true;
	if (!bars_get(*from, kind, to, stored, total))
		return false;
	*from += stored;
	return true;
}

/* Fills a row, and appends its bars. */
static bool fill_row(const struct counters_columns *columns, const struct bar_columns **stored,
		     struct process_rows *rows, struct site_counters_row *row)
{
	if (columns->site == 0 || columns->site >= rows->site_count ||
	    columns->slot >= LIVE_SLOTS_MAX || columns->peak_same > SAME_NEITHER ||
	    columns->temporary_same > SAME_NEITHER)
		return false;
	row_from_columns(columns, row);
	row->sizes_at = (uint32_t)rows->bar_count;
	row->sizes_count = (uint32_t)bars_of_code(columns->size_bars);
	row->lifetimes_at = row->sizes_at + row->sizes_count;
	row->lifetimes_count = (uint32_t)bars_of_code(columns->lifetime_bars);
	rows->bar_count = (size_t)row->lifetimes_at + row->lifetimes_count;
	return fill_bars(&size_kind, columns->size_bars, derived_size(row, columns->size),
			 row->calls, stored, rows->bars + row->sizes_at) &&
	       fill_bars(&lifetime_kind, columns->lifetime_bars, derived_lifetime(row), row->frees,
			 stored, rows->bars + row->lifetimes_at);
}

void chunk_site_counters_get(struct source *in, struct process_rows *rows)
{
	size_t count = 0, stored_count = 0;
	struct counters_columns *columns = table_get(in, COUNTERS_SHAPE, &count);
	struct bar_columns *stored = table_get(in, BAR_SHAPE, &stored_count);
	size_t bar_count = in->cursor.failed ? 0 : count_bars(in, columns, count, stored_count);
	const struct bar_columns *next = stored;

	rows->site_counters = source_alloc(in, count, sizeof *rows->site_counters);
	/* One more, so that the pointer is never NULL. */
	rows->bars = source_alloc(in, bar_count + 1, sizeof *rows->bars);
	for (size_t i = 0; i < count && !in->cursor.failed; i++) {
		if (!fill_row(&columns[i], &next, rows, &rows->site_counters[i]))
			cursor_fail(&in->cursor);
	}
	rows->site_counters_count = count;
	free(stored);
	free(columns);
}

/* doc: chunk_ages */
static const struct field age_fields[] = {
	FIELD(struct age_row, counters), FIELD(struct age_row, bucket),
	FIELD(struct age_row, blocks),
	FIELD(struct age_row, bytes), /* residual to blocks of the mean size */
};
enum { AGE_BUCKETS = 64 };

static const struct field live_size_fields[] = {
	FIELD(struct live_size_row, counters),
	FIELD(struct live_size_row, low),
	FIELD(struct live_size_row, high), /* stored as the difference to low */
	FIELD(struct live_size_row, blocks),
};

static void put_live_sizes(struct payload *out, const struct process_rows *rows)
{
	struct live_size_row *columns = columns_new(out, rows->live_size_count, sizeof *columns);

	for (size_t i = 0; columns && i < rows->live_size_count; i++) {
		columns[i] = rows->live_sizes[i];
		columns[i].high -= columns[i].low;
	}
	table_put(out, TABLE_SHAPE(struct live_size_row, live_size_fields), columns,
		  rows->live_size_count);
	free(columns);
}

static void get_live_sizes(struct source *in, struct process_rows *rows)
{
	rows->live_sizes = table_get(in, TABLE_SHAPE(struct live_size_row, live_size_fields),
				     &rows->live_size_count);
	for (size_t i = 0; i < rows->live_size_count; i++) {
		struct live_size_row *row = &rows->live_sizes[i];

		if (row->counters >= rows->site_counters_count ||
		    !checked_add(row->low, row->high, &row->high)) {
			cursor_fail(&in->cursor);
			return;
		}
	}
}

void chunk_ages_put(struct payload *out, const struct process_rows *rows)
{
	struct age_row *columns = columns_new(out, rows->age_count, sizeof *columns);

	for (size_t i = 0; columns && i < rows->age_count; i++) {
		columns[i] = rows->ages[i];
		columns[i].bytes = residual_put(
			columns[i].bytes,
			columns[i].blocks *
				site_counters_mean_size(&rows->site_counters[columns[i].counters]));
	}
	table_put(out, TABLE_SHAPE(struct age_row, age_fields), columns, rows->age_count);
	free(columns);
	if (rows->live_size_count > 0)
		put_live_sizes(out, rows);
}

void chunk_ages_get(struct source *in, struct process_rows *rows)
{
	rows->ages = table_get(in, TABLE_SHAPE(struct age_row, age_fields), &rows->age_count);
	for (size_t i = 0; i < rows->age_count; i++) {
		struct age_row *row = &rows->ages[i];

		if (row->counters >= rows->site_counters_count || row->bucket >= AGE_BUCKETS) {
			cursor_fail(&in->cursor);
			return;
		}
		row->bytes = residual_get(
			row->bytes,
			row->blocks * site_counters_mean_size(&rows->site_counters[row->counters]));
	}
	if (!in->cursor.failed && cursor_left(&in->cursor) > 0)
		get_live_sizes(in, rows); /* since 1.10 */
}
