/* SPDX-License-Identifier: Apache-2.0 */
/* From the graph of references to the rows of a recording: classes, retained bytes, types and paths by site, and the roots that hold most. */
#ifndef COLLECT_IMAGE_REACH_ROWS_H
#define COLLECT_IMAGE_REACH_ROWS_H

#include "collect/image/references.h"
#include "format/recording/rows.h"

/* While the memory can still be read: paths need it. Fills in everything but how the process was stopped, and what was in flight. -1 with
 * error set: out of memory. Release the rows in either case. */
int reach_rows_make(const struct references *references, const struct live_blocks *blocks,
		    struct scanner *scanner, struct image_rows *ret, struct error *error);
/* Moves them to the rows of the process. */
void reach_rows_put(struct image_rows *image, struct process_rows *rows);

#endif
