/* SPDX-License-Identifier: Apache-2.0 */
/* The summary at the end of a run. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include <stdio.h>

#include "format/recording/recording.h"
#include "util/error.h"

/* Prints to `out` a summary of the finished recording at `path`: how the program ended, peak, memory not freed,
 * allocations, RSS against live heap, everything that could not be recorded, and the path. Returns 0, or -1,
 * with nothing printed, if the recording cannot be read. */
int summary_print(FILE *out, const char *path, struct recording *recording, struct error *error);

#endif
