/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a profile from a recording, from the file of a process that records itself, from a core file, or from a running
 * process.
 * Prints nothing. */
#ifndef CLI_PROFILE_SOURCE_H
#define CLI_PROFILE_SOURCE_H

#include <stdbool.h>
#include <sys/types.h>

#include "model/profile.h"
#include "util/error.h"

/* Loads the recording. Returns NULL if it cannot be read; the error says what to do next. */
struct profile *recording_open(const char *path, struct error *error);
/* Does the same for a running process. *ret_name (to be freed) is its name in reports. reads_pages: also its pages. */
struct profile *process_open(pid_t pid, bool reads_pages, char **ret_name, struct error *error);

#endif
