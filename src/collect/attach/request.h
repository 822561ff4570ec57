/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the collector of a recorded process for something. */
#ifndef COLLECT_ATTACH_REQUEST_H
#define COLLECT_ATTACH_REQUEST_H

#include <sys/types.h>

#include "util/error.h"

/* A snapshot of the process, under a name of at most 63 bytes. -1 with the error set: it is not recorded, its collector is
 * gone, or may not be asked. */
int request_snapshot(pid_t pid, const char *name, struct error *error);

#endif
