/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information from debuginfod servers. Never by itself: only if somebody asked for it. The library
 * is loaded when the first file is wanted, and what was fetched stays in its own cache. One thread at a
 * time.
 */
#ifndef SYMBOLS_DEBUG_DEBUG_FETCH_H
#define SYMBOLS_DEBUG_DEBUG_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct debug_fetch_options {
	bool wanted;
	const char *urls;     /* as in DEBUGINFOD_URLS; NULL: that variable's */
	unsigned deadline_ms; /* for everything that is fetched, together; 0: 60 s */
	/* Called now and then while a file is fetched; total 0: not known. May be NULL. */
	void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *context;
};

enum debug_fetch_trouble {
	DEBUG_FETCH_FINE,
	DEBUG_FETCH_NO_LIBRARY, /* libdebuginfod is not installed */
	DEBUG_FETCH_NO_SERVER,	/* no server is named */
	DEBUG_FETCH_FAILED,	/* a server could not be asked */
	DEBUG_FETCH_LATE,	/* the deadline has passed: nothing is asked any more */
};

struct debug_fetch;

/* NULL if out of memory. */
struct debug_fetch *debug_fetch_new(const struct debug_fetch_options *options);
void debug_fetch_free(struct debug_fetch *fetch);

/* Path of the debug file for the build-id; the caller's (free). NULL if there is none. */
char *debug_fetch_find(struct debug_fetch *fetch, struct span build_id);

/* The worst that happened so far. That a server does not have a file is no trouble. */
enum debug_fetch_trouble debug_fetch_trouble(const struct debug_fetch *fetch);

#endif
