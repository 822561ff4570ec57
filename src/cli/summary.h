/* SPDX-License-Identifier: Apache-2.0 */
/* The summary at the end of a run. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include <stdio.h>

#include "format/recording/recording.h"
#include "util/error.h"

/* Prints of the finished recording at `path` to `out` what happened, the peak, what was not freed, the allocations, RSS
 * against the live heap, everything that could not be recorded, and where it was written. Returns 0, or -1 if the
 * recording cannot be read; nothing is printed then. */
int summary_print(FILE *out, const char *path, struct recording *recording, struct error *error);

#endif
