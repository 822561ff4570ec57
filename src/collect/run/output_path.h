/* SPDX-License-Identifier: Apache-2.0 */
/* Where a recording is written: `record -o`, which is a path, a pattern or a folder. */
#ifndef COLLECT_RUN_OUTPUT_PATH_H
#define COLLECT_RUN_OUTPUT_PATH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/span.h"
#include "util/error.h"

/* The letters of a pattern, for help and errors. */
#define OUTPUT_LETTERS "%p (pid), %h (host), %e (executable) and %%"

/* -1 with the error set: the pattern has a letter that stands for nothing. */
int output_path_check(const char *pattern, struct error *error);

/*
 * The path for this program, an executable or a path of one, from `pattern`: NULL is the default, and a folder (an existing one,
 * or one with a slash at its end) is the default in that folder. rank: RANK_NONE = none; only the default contains it. The
 * caller frees it; NULL if out of memory.
 */
char *output_path(const char *pattern, const char *program, pid_t pid, int rank);

/*
 * Fails if the path that output_path made from the pattern cannot be written, or is that of the input (which may be NULL): at the
 * start, not after an hour of running.
 */
int output_path_check_writable(const char *pattern, const char *path, const char *input,
			       struct error *error);

/* Whether the user wrote the whole name. A file of that name is replaced; one of a name that we made up never is. */
bool output_path_is_given(const char *pattern);
/* Writes a recording to the path that output_path made from the pattern. The caller frees *ret_path, where it was written. */
int output_path_write(const char *pattern, const char *path, struct span bytes, char **ret_path,
		      struct error *error);
/* Writes a recording to `path`, or to run-2.hg, run-3.hg and so on if run.hg exists. The caller frees *ret_path. */
int output_path_write_new(const char *path, struct span bytes, mode_t mode, char **ret_path,
			  struct error *error);

#endif
