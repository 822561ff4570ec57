/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live view of a running process in a terminal. It knows profiles and results; where a profile comes from is the
 * caller's affair, who gives three functions.
 */
#ifndef TUI_TOP_H
#define TUI_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "analysis/views/listing.h"
#include "model/names.h"
#include "model/profile.h"
#include "util/error.h"

/* Called by one thread, one at a time. All give NULL with the error set. */
struct top_source {
	void *context;
	/* The process as it is now. Without ages. */
	struct profile *(*read)(void *context, pid_t pid, struct error *error);
	/* How its frames are named. */
	struct names *(*names)(void *context, pid_t pid, struct error *error);
	/* Those there are to choose from; the listing is ended, *ret_result is its result. */
	struct listing *(*list)(void *context, const struct result **ret_result,
				struct error *error);
};

struct top_options {
	struct top_source source;
	pid_t pid;	      /* 0: one is chosen first */
	uint64_t interval_ns; /* between two readings */
	const char *order;    /* by what sites are sorted; NULL: by what they hold */
	const char *filter;   /* of functions and files; NULL: none */
	bool exact_bytes;
};

/* What `order` may be; ends with a NULL name. */
struct top_order {
	const char *name, *help;
	char key;
};
extern const struct top_order top_orders[];

/* Until the person has enough. -1 with the error set if the terminal cannot do it; the terminal is as it was before. */
int top_run(const struct top_options *options, struct error *error);

#endif
