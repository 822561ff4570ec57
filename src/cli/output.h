/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a command's output goes: stdout, or a pager if stdout is a terminal and the output is longer than the
 * screen.
 *
 *	struct output output = output_open(&options.common);
 *	int status = write_it(output.file, ...);
 *	status = output_close(&output, status, &error);
 *
 * The pager is $HEAPGAUGE_PAGER, else $PAGER, else less with LESS=FRX; "cat" or an empty value disables it. It
 * starts when the first screen is full, and never for a file, a pipe or a dumb terminal.
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
	bool utf8;	  /* whether box drawing characters may be used */
	unsigned columns; /* the width of the terminal, else $COLUMNS, else 80 */
	/* The width to truncate to; 0 for a file or a pipe, which have none. */
	unsigned cut_columns;
	struct pager *pager; /* NULL: written directly to stdout */
};

/* Only one may be open at a time. `requests` may be NULL. */
struct output output_open(const struct common_options *requests);

/* Writes the rest and waits for the pager. `status` is what the writer returned: 0, or -1 with the error set. A
 * user who quits the pager early is not an error. Returns 0, or -1 with the error set. */
int output_close(struct output *output, int status, struct error *error);

#endif
