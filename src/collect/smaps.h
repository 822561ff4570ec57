/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages of a process are for, from /proc/PID/smaps. */
#ifndef COLLECT_SMAPS_H
#define COLLECT_SMAPS_H

#include "format/rows.h"

/* Sums the resident bytes of each class into the row's classes, rss_bytes and swap_bytes; the rest of the row is left.
 * `text` is changed. */
void smaps_sum(char *text, struct memory_row *row);

#endif
