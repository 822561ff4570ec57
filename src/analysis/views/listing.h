/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes side by side, each from a profile of its own: `heapgauge list`. Rows are added one at a time, so that only one
 * profile has to be there at once.
 */
#ifndef ANALYSIS_VIEWS_LISTING_H
#define ANALYSIS_VIEWS_LISTING_H

#include <sys/types.h>

#include "analysis/result/locations.h"
#include "analysis/result/result.h"
#include "util/error.h"

struct listed {
	pid_t pid;
	const char *program, *command, *container; /* NULL: not known, or in none */
	const struct profile *profile; /* its first process counts; NULL: `problem` says why */
	struct locations *locations;
	const char *mode; /* how it is recorded now; NULL: as its numbers say */
	const char *kept; /* where its profile is: "collector", "file", "memory"; NULL: not known */
	const char *problem; /* NULL: none */
};

struct listing;

/* NULL if out of memory. */
struct listing *listing_new(void);
void listing_free(struct listing *listing);

/* Keeps nothing of what it is given. -1 with the error set, and nothing added. */
int listing_add(struct listing *listing, const struct listed *one, struct error *error);

/* hidden: processes that could not be looked into. The result is the listing's. NULL with the error set if out of memory. */
const struct result *listing_end(struct listing *listing, size_t hidden, struct error *error);

#endif
