/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that name functions, once for each build-id, where profiles have addresses only ([agent] names = no):
 *
 *	FOLDER/buildid/ID/debuginfo
 *
 * This is the layout that debuginfod serves: a web server, or a bucket that the folder is copied to, makes it one for Pyroscope's
 * symbolizer and for pprof. The files are programs of others: a file is kept only if its own build-id is ID and it belongs to
 * root, and it is never replaced. One thread at a time.
 */
#ifndef AGENT_PUSH_SYMBOLS_H
#define AGENT_PUSH_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct symbols;

struct symbols_counters {
	uint64_t files, bytes; /* written by this agent */
	uint64_t refused;      /* not root's, another build-id, or beyond the limit */
};

/* Creates the folder. Returns NULL with the error set. */
struct symbols *symbols_open(const char *folder, uint64_t max_bytes, struct error *error);
void symbols_close(struct symbols *symbols);

/* Copies the file that the process sees at `path`, unless that build-id (in hex, untrusted) is known. True: it was copied, which
 * may have taken long. */
bool symbols_offer(struct symbols *symbols, pid_t pid, const char *build_id, const char *path);

struct symbols_counters symbols_counters(const struct symbols *symbols);

#endif
