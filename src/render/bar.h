/* SPDX-License-Identifier: Apache-2.0 */
/* A share as a bar: of block characters in eighths of a column, or of '#' where the screen has only ASCII. */
#ifndef RENDER_BAR_H
#define RENDER_BAR_H

#include "analysis/result/result.h"
#include "render/renderers.h"

/* How wide the whole is on this screen. */
size_t bar_columns(const struct render_options *options);
/* Nothing if the part or the whole is 0; a part that is there is never shown as nothing. */
void bar_append(struct buffer *out, struct result_share share,
		const struct render_options *options);

/* The largest of each part of a series as one of eight heights, or of three in ASCII; the largest of all is the highest. */
void series_append(struct buffer *out, struct result_numbers series,
		   const struct render_options *options);

#endif
