/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that heapgauge writes where the user wants them:
 *
 *	AUTO(output_file_abort) struct output_file out = OUTPUT_FILE_INIT;
 *	if (output_file_open(&out, path, inputs, count, error) < 0)
 *		return -1;
 *	fprintf(out.stream, ...);
 *	return output_file_commit(&out, error);
 *
 * A regular file is replaced by rename and keeps its mode and owner: readers see the old content or the new one. If rename is
 * impossible (a mount point, a read-only directory), the complete content is copied into the file. Pipes and devices are written
 * to directly; Ctrl-C ends the wait for a reader. /dev/stdout and /dev/fd/N are the open descriptors. A symbolic link is followed
 * if it belongs to this user or root. No file is removed that was not created here.
 *
 * Functions return 0, or -1 with err and errno set. Any thread.
 */
#ifndef UTIL_OUTPUT_FILE_H
#define UTIL_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/span.h"
#include "util/error.h"

struct output_file {
	FILE *stream; /* collects the content in memory */
	const char *path;
	char *bytes;
	size_t size;
};

#define OUTPUT_FILE_INIT ((struct output_file){ 0 })

/* Fails if the path cannot be written, or is the same file as one of the inputs: paths, or NULL for none. */
int output_file_check(const char *path, const char *const *inputs, size_t count, struct error *err);

/* Checks the path in the same way and opens the stream. `path` must outlive the file. */
int output_file_open(struct output_file *file, const char *path, const char *const *inputs,
		     size_t count, struct error *err);
/* Closes the stream and writes its content to the path. */
int output_file_commit(struct output_file *file, struct error *err);
/* Drops the content. Does nothing after output_file_commit. */
void output_file_abort(struct output_file *file);

/* Writes these bytes to the path. A new file gets `mode`, less the umask. */
int output_file_write(const char *path, struct span bytes, mode_t mode, struct error *err);
/* Writes like output_file_write, but does not wait for the disk: a power failure may leave an empty file. */
int output_file_write_unsynced(const char *path, struct span bytes, mode_t mode, struct error *err);
/* Creates a file that is complete when its name appears. Fails with errno EEXIST instead of replacing a file. */
int output_file_write_new(const char *path, struct span bytes, mode_t mode, struct error *err);

/* Waits for less than a second. Returns false if a signal asks to end. Set by programs that block signals; NULL: nothing ends the wait. */
extern bool (*output_file_pause)(long milliseconds);

/* Returns true for pipes, devices and open descriptors. */
bool output_file_is_stream(const char *path);
/* Fails if no file can be created at the path because of its directory. */
int output_file_check_folder(const char *path, struct error *err);

#endif
