/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live view of a running process in a terminal. It handles profiles and results; the caller provides the
 * profiles through three functions.
 */
#ifndef TUI_TOP_H
#define TUI_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "analysis/views/listing.h"
#include "model/frames/names.h"
#include "model/profile.h"
#include "util/error.h"

/* Called by one thread, one at a time. All return NULL with the error set on failure. */
struct top_source {
	void *context;
	/* Reads the current state of the process, without ages of blocks. */
	struct profile *(*read)(void *context, pid_t pid, struct error *error);
	/* Returns the names of its frames. */
	struct names *(*names)(void *context, pid_t pid, struct error *error);
	/* Lists the processes to choose from; the listing is finished, *ret_result is its result. */
	struct listing *(*list)(void *context, const struct result **ret_result,
				struct error *error);
};

struct top_options {
	struct top_source source;
	pid_t pid;	      /* 0: the user chooses one first */
	uint64_t interval_ns; /* between two readings */
	const char *order;    /* how sites are sorted; NULL: by live bytes */
	const char *filter;   /* on functions and files; NULL: none */
	bool exact_bytes;
};

/* The choices of `order`; ends with a NULL name. */
struct top_order {
	const char *name, *help;
	char key;
};
extern const struct top_order top_orders[];

/* Runs until the user quits, then restores the terminal. Returns -1 with the error set if the terminal cannot be
 * used. */
int top_run(const struct top_options *options, struct error *error);

#endif
