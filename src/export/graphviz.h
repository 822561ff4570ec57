/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the Graphviz exporters. */
#ifndef EXPORT_GRAPHVIZ_H
#define EXPORT_GRAPHVIZ_H

#include "base/checked.h"
#include "export/stacks.h"
#include "util/text/units.h"

static inline double graphviz_share(int64_t part, int64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* From pale to red, as "#rrggbb". */
static inline void graphviz_colour(FILE *out, double hot)
{
	hot = hot < 0 ? 0 : hot > 1 ? 1 : hot;
	fprintf(out, "\"#%02x%02x%02x\"", 255, (unsigned)(240 - 160 * hot),
		(unsigned)(220 - 180 * hot));
}

/* A value of the selection's cost and, for an estimate, its standard error. */
static inline void graphviz_value(FILE *out, const struct export_input *in, int64_t value,
				  double variance)
{
	uint64_t size = magnitude(value);

	fprintf(out, "%s%s", value < 0 ? "-" : "",
		cost_rows[in->selection->cost].unit == UNIT_BYTES ? units_bytes(size).text
								  : units_count(size).text);
	if (variance != 0 && size)
		fprintf(out, " +-%.1f%%", 100 * sqrt(fabs(variance)) / (double)size);
}

/* Starts a graph: its label has the cost that is shown, and the cost that is not. */
static inline void graphviz_begin(FILE *out, const struct export_input *in, int64_t whole,
				  double variance, int64_t left_out, double left_variance)
{
	fputs("digraph heapgauge {\n  label=\"", out);
	write_safe(out, in->profile->command, "\"\\", '\'');
	fprintf(out, "\\n%s ", in->selection->cost_word);
	graphviz_value(out, in, whole, variance);
	fprintf(out, " %s; not shown ", in->selection->moment);
	graphviz_value(out, in, left_out, left_variance);
	fputs("\";\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n", out);
}

#endif
