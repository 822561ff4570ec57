/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capabilities of the terminal at the other end of a descriptor. cli/ queries them and passes
 * plain values to the renderer, so that a renderer's output depends only on its arguments.
 */
#ifndef UTIL_TERMINAL_H
#define UTIL_TERMINAL_H

#include <stdbool.h>

#define TERMINAL_DEFAULT_COLUMNS 80
#define TERMINAL_DEFAULT_ROWS 24

struct terminal {
	bool is_tty;
	bool redraws; /* supports cursor movement: a progress line may be redrawn */
	bool colours; /* redraws, and NO_COLOR is not set (https://no-color.org) */
	bool utf8;    /* the locale's encoding is UTF-8: box drawing etc. may be used */
	unsigned columns;
	unsigned rows;
	bool columns_given; /* by a terminal or by $COLUMNS, not the default */
};

/* columns: of the terminal, else $COLUMNS, else 80. rows: of the terminal, else $LINES, else 24. */
struct terminal terminal_of(int fd);

#endif
