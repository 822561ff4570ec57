/* SPDX-License-Identifier: Apache-2.0 */
/* A line of /proc/PID/maps, which is also the first line of each mapping in smaps. */
#ifndef COLLECT_KERNEL_MAP_LINE_H
#define COLLECT_KERNEL_MAP_LINE_H

#include <stdbool.h>
#include <stdint.h>

struct map_line {
	uint64_t start, end, offset;
	uint64_t device; /* as in stat(2) */
	uint64_t inode;
	const char *permissions; /* "rw-p", not terminated */
	const char *name;	 /* inside the line, up to its end; "" = anonymous */
};

/* "start-end rw-p offset dev inode   name". False for any other line. */
bool map_line_parse(const char *line, struct map_line *ret);
/* Parses the next line of a text and advances *at. False: there is none. */
bool map_line_next(const char **at, struct map_line *ret);

#endif
