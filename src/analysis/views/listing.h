/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes side by side, each from its own profile: `heapgauge list`. Rows are added one at a time, so that only one
 * profile is in memory at once.
 */
#ifndef ANALYSIS_VIEWS_LISTING_H
#define ANALYSIS_VIEWS_LISTING_H

#include <sys/types.h>

#include "analysis/result/locations.h"
#include "analysis/result/result.h"
#include "util/error.h"

struct listed {
	pid_t pid;
	const char *program, *command, *container; /* NULL: unknown, or no container */
	const struct profile *profile; /* its first process is used; NULL: `problem` says why */
	struct locations *locations;
	const char *mode; /* its current recording mode; NULL: derived from its numbers */
	const char *kept; /* storage of its profile: "collector", "file", "memory"; NULL: unknown */
	const char *problem; /* NULL: none */
};

struct listing;

/* NULL if out of memory. */
struct listing *listing_new(void);
void listing_free(struct listing *listing);

/* Copies what it needs. On failure returns -1 with the error set, and adds nothing. */
int listing_add(struct listing *listing, const struct listed *one, struct error *error);

/* hidden: number of unreadable processes. The listing owns the result. NULL with the error set if out of memory. */
const struct result *listing_end(struct listing *listing, size_t hidden, struct error *error);

#endif
