/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the collector of a recorded process. */
#ifndef COLLECT_ATTACH_REQUEST_H
#define COLLECT_ATTACH_REQUEST_H

#include <sys/types.h>

#include "util/error.h"

/* Requests a snapshot of the process, with a name of at most 63 bytes. -1 with the error set: it is not recorded, or its
 * collector has ended or may not be reached. */
int request_snapshot(pid_t pid, const char *name, struct error *error);

#endif
