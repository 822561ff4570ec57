/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats the totals as three lines of text with a small chart each. RSS has a line of its own, because it is never
 * mixed with requested bytes. Pure except for the points it keeps.
 */
#include "tui/totals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/rates.h"
#include "base/checked.h"
#include "render/bar.h"
#include "util/text/units.h"

void totals_add(struct totals *t, const struct profile_process *p)
{
	const struct totals_point point = {
		.at_ns = p->duration_ns,
		.live_bytes = p->live_bytes,
		.rss_bytes = p->rss_bytes,
		.calls = p->calls,
		.bytes = p->bytes,
	};

	if (t->count && (point.at_ns < t->points[t->count - 1].at_ns ||
			 point.calls < t->points[t->count - 1].calls))
		t->count = 0;
	if (t->count == TOTALS_POINTS) {
		memmove(t->points, t->points + 1, (TOTALS_POINTS - 1) * sizeof *t->points);
		t->count--;
	}
	t->points[t->count++] = point;
}

static struct units bytes_text(uint64_t bytes, bool exact)
{
	struct units text = units_bytes(bytes);

	if (exact)
		snprintf(text.text, sizeof text.text, "%.36s B", units_count(bytes).text);
	return text;
}

enum chart { CHART_LIVE, CHART_RSS, CHART_CALLS };

/* Returns the value of point i in the chart; for calls, the rate since the previous point. */
static int64_t chart_value(const struct totals *t, enum chart chart, size_t i)
{
	const struct totals_point *p = &t->points[i], *before = &t->points[i ? i - 1 : 0];

	switch (chart) {
	case CHART_LIVE:
		return (int64_t)p->live_bytes;
	case CHART_RSS:
		return (int64_t)p->rss_bytes;
	case CHART_CALLS:
		return rate_of((int64_t)(p->calls - before->calls), p->at_ns - before->at_ns);
	}
	return 0;
}

static void append_chart(const struct totals *t, enum chart chart, bool utf8, struct buffer *out)
{
	const struct render_options options = { .utf8 = utf8 };
	int64_t values[TOTALS_POINTS];

	for (size_t i = 0; i < t->count; i++)
		values[i] = chart_value(t, chart, i);
	/* The newest point is at the right. */
	buffer_fill(out, ' ', TOTALS_POINTS - t->count);
	size_t before = out->size;

	series_append(out, (struct result_numbers){ values, t->count, NULL }, &options);
	if (out->size == before)
		buffer_fill(out, ' ', t->count); /* all values are zero */
}

void totals_line(const struct totals *t, const struct profile_process *p, size_t line, bool exact,
		 bool utf8, struct buffer *out)
{
	const struct totals_point *now = &t->points[t->count - 1];
	const struct totals_point *before = &t->points[t->count > 1 ? t->count - 2 : 0];
	uint64_t elapsed_ns = now->at_ns - before->at_ns;
	int64_t growth = rate_of((int64_t)(now->live_bytes - before->live_bytes), elapsed_ns);
	int64_t asked = rate_of((int64_t)(now->bytes - before->bytes), elapsed_ns);

	switch (line) {
	case 0:
		buffer_printf(out, " live  %15s  ", bytes_text(p->live_bytes, exact).text);
		append_chart(t, CHART_LIVE, utf8, out);
		if (p->live_bound.bytes > p->live_bytes / 100)
			buffer_printf(out, "  within %s",
				      bytes_text(p->live_bound.bytes, exact).text);
		if (p->sums.live_bytes_variance > 0 && p->live_bytes)
			buffer_printf(out, "  +-%.1f %%",
				      100 * sqrt(p->sums.live_bytes_variance) /
					      (double)p->live_bytes);
		buffer_printf(out, "  peak %s  %s blocks", bytes_text(p->peak_bytes, exact).text,
			      units_count(p->live_blocks).text);
		break;
	case 1:
		buffer_printf(out, " RSS   %15s  ", bytes_text(now->rss_bytes, exact).text);
		append_chart(t, CHART_RSS, utf8, out);
		buffer_printf(out, "  recorder %s  threads %s",
			      bytes_text(p->own_bytes, exact).text, units_count(p->threads).text);
		break;
	default:
		buffer_printf(
			out, " calls %13s/s  ",
			units_count_short((uint64_t)rate_of((int64_t)(now->calls - before->calls),
							    elapsed_ns))
				.text);
		append_chart(t, CHART_CALLS, utf8, out);
		buffer_printf(out, "  asks %s/s  grows %s/s",
			      bytes_text((uint64_t)MAX(asked, (int64_t)0), exact).text,
			      units_bytes_change(growth).text);
	}
}
