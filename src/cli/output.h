/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a command's answer goes: stdout, or a pager if that is a terminal and the answer longer than it.
 *
 *	struct output output = output_open(&options.common);
 *	int status = write_it(output.file, ...);
 *	status = output_close(&output, status, &error);
 *
 * The pager is $HEAPGAUGE_PAGER, else $PAGER, else less with LESS=FRX; "cat" or an empty value is none. It starts when
 * the first screen is full, and is never started for a file, a pipe or a dumb terminal.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/options/options.h"
#include "util/error.h"

struct pager;

struct output {
	FILE *file;
	bool is_tty;
	bool colours;
	bool utf8;	  /* box drawing and the like may be used */
	unsigned columns; /* of the terminal, else $COLUMNS, else 80 */
	/* The width to cut to: 0 where nobody sees a width, as in a file or a pipe. */
	unsigned cut_columns;
	struct pager *pager; /* NULL: written straight to stdout */
};

/* One at a time. `requests` may be NULL. */
struct output output_open(const struct common_options *requests);

/* Writes what is left and waits for the pager. `status` is what the writer returned: 0, or -1 with the error set. A
 * reader that quit the pager had enough, which is success. Returns 0, or -1 with the error set. */
int output_close(struct output *output, int status, struct error *error);

#endif
