/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes each profile as a file, for tools that copy a folder to object storage:
 *
 *	FOLDER/service=NAME/YYYY-MM-DD/HH/HOST-PID-SERIAL.pb.gz		(the hour in UTC)
 *
 * Several agents may share a folder if their hosts differ. Each keeps its own files, which are those with its host, below a limit
 * by deleting the oldest. One thread at a time.
 */
#ifndef AGENT_PUSH_FILE_SINK_H
#define AGENT_PUSH_FILE_SINK_H

#include <stdint.h>

#include "base/span.h"
#include "util/error.h"

struct file_sink;

struct file_sink_profile {
	const char *service;
	uint64_t pid, serial;
	uint64_t at_ns; /* wall-clock time */
	struct span bytes;
};

struct file_sink_counters {
	uint64_t files, bytes; /* now */
	uint64_t written, deleted, failed;
};

/* Creates the folder if it is missing, not those above it; finds the files of an earlier agent. The suffix (".pb.gz") is not
 * copied. Returns NULL with err set. */
struct file_sink *file_sink_open(const char *folder, const char *host, const char *suffix,
				 uint64_t max_bytes, struct error *err);
/* The files stay. NULL is fine. */
void file_sink_close(struct file_sink *sink);

/* Replaces a file of the same name. A reader sees the whole file or none. On failure, which is counted, nothing is written. */
int file_sink_write(struct file_sink *sink, const struct file_sink_profile *profile,
		    struct error *err);

/* Counts one that could not even be made. */
void file_sink_count_failed(struct file_sink *sink);

struct file_sink_counters file_sink_counters(const struct file_sink *sink);

#endif
