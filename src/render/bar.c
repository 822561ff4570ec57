/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars. Their width depends only on the screen and not on the rest of the row, so that bars of two
 * reports are comparable. Pure.
 */
#include "render/bar.h"

#include "base/compiler.h"

enum {
	BAR_COLUMNS = 40, /* if the screen width is unknown */
	BAR_COLUMNS_MIN = 10,
	BAR_COLUMNS_MAX = 60,
	RESERVED_COLUMNS = 60, /* reserved for the other columns */
	SERIES_COLUMNS = 32,
};

size_t bar_columns(const struct render_options *o)
{
	if (!o->columns)
		return BAR_COLUMNS;
	if (o->columns < RESERVED_COLUMNS + BAR_COLUMNS_MIN)
		return BAR_COLUMNS_MIN;
	return MIN(o->columns - RESERVED_COLUMNS, (size_t)BAR_COLUMNS_MAX);
}

void bar_append(struct buffer *out, struct result_share share, const struct render_options *o)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };

	if (!share.part || !share.whole)
		return;
	double part = MIN((double)share.part / (double)share.whole, 1.0);
	size_t steps = (size_t)(part * (double)bar_columns(o) * 8 + 0.5);

	steps = MAX(steps, (size_t)1);
	for (; steps >= 8; steps -= 8)
		buffer_text(out, o->utf8 ? eighths[8] : "#");
	if (o->utf8)
		buffer_text(out, eighths[steps]);
	else if (steps >= 4 || part * (double)bar_columns(o) < 1)
		buffer_char(out, '#');
}

/* The maximum of the numbers that fall into one column. */
static int64_t column_max(struct result_numbers series, size_t column, size_t columns)
{
	size_t from = series.count * column / columns;
	size_t to = MAX(series.count * (column + 1) / columns, from + 1);
	int64_t most = 0;

	for (size_t i = from; i < MIN(to, series.count); i++)
		most = MAX(most, series.at[i]);
	return most;
}

void series_append(struct buffer *out, struct result_numbers series, const struct render_options *o)
{
	static const char *const heights[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { " ", ".", ".", ".", "-", "-", "-", "#", "#" };
	size_t columns = MIN((size_t)SERIES_COLUMNS, series.count);
	int64_t highest = 0;

	for (size_t i = 0; i < series.count; i++)
		highest = MAX(highest, series.at[i]);
	for (size_t i = 0; i < columns && highest > 0; i++) {
		int64_t most = column_max(series, i, columns);
		size_t step = (size_t)((double)most / (double)highest * 8 + 0.5);

		step = most > 0 ? MAX(step, (size_t)1) : 0;
		buffer_text(out, (o->utf8 ? heights : ascii)[step]);
	}
}
