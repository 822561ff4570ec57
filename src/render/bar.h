/* SPDX-License-Identifier: Apache-2.0 */
/* A share as a bar: block characters in eighths of a column, or '#' if the screen supports only ASCII. */
#ifndef RENDER_BAR_H
#define RENDER_BAR_H

#include "analysis/result/result.h"
#include "render/renderers.h"

/* The width of a full bar on this screen. */
size_t bar_columns(const struct render_options *options);
/* Appends nothing if the part or the whole is 0; a non-zero part is always visible. */
void bar_append(struct buffer *out, struct result_share share,
		const struct render_options *options);

/* A sparkline: the maximum of each part of a series in eight heights (three in ASCII), relative to the overall
 * maximum. */
void series_append(struct buffer *out, struct result_numbers series,
		   const struct render_options *options);

#endif
