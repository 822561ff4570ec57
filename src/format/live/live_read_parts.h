/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of live_read_rows in separate files. -1: out of memory; partial results are released with the rows. */
#ifndef FORMAT_LIVE_LIVE_READ_PARTS_H
#define FORMAT_LIVE_LIVE_READ_PARTS_H

#include "format/live/live_view.h"
#include "format/recording/rows.h"

/* Reads the joint distributions. */
int live_read_pairs(const struct live_view *view, struct process_rows *rows);

int live_read_tags(const struct live_view *view, struct process_rows *rows);

/* Reads the names of Python frames. Call after modules and frames. */
int live_read_python(const struct live_view *view, struct process_rows *rows);
/* The line of a code unit according to CPython's location table; 0: it has none. */
uint32_t live_python_line(const uint8_t *table, size_t bytes, uint32_t first_line, uint32_t unit);

#endif
