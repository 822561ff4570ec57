/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information from the debuginfod servers that DEBUGINFOD_URLS names. Opt-in: servers are never queried unless the user
 * requests it. The library is loaded on first use, and fetched files stay in its own cache. One thread at a time per object.
 */
#ifndef SYMBOLS_DEBUG_DEBUG_FETCH_H
#define SYMBOLS_DEBUG_DEBUG_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct debug_fetch_options {
	bool wanted;
	unsigned deadline_ms; /* for all requests together; 0: 60 s */
	/* Called repeatedly while a file is fetched; total 0: unknown. May be NULL. */
	void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *context;
};

enum debug_fetch_trouble {
	DEBUG_FETCH_FINE,
	DEBUG_FETCH_NO_LIBRARY, /* libdebuginfod is not installed */
	DEBUG_FETCH_NO_SERVER,	/* no server is configured */
	DEBUG_FETCH_FAILED,	/* a request to a server failed */
	DEBUG_FETCH_LATE,	/* the deadline has passed: no further requests */
};

struct debug_fetch;

/* NULL if out of memory. */
struct debug_fetch *debug_fetch_new(const struct debug_fetch_options *options);
void debug_fetch_free(struct debug_fetch *fetch);

/* Path of the debug file for the build-id; owned by the caller (free). NULL if there is none. */
char *debug_fetch_find(struct debug_fetch *fetch, struct span build_id);

/* The worst problem so far. A server that lacks a file is not a problem. */
enum debug_fetch_trouble debug_fetch_trouble(const struct debug_fetch *fetch);

#endif
