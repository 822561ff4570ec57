/* SPDX-License-Identifier: Apache-2.0 */
/* What a reading gives up before it decodes anything. */
#ifndef AGENT_READING_PRIVILEGES_H
#define AGENT_READING_PRIVILEGES_H

#include <stdbool.h>

#include "agent/reading/reading.h"
#include "collect/kernel/procfs.h"

/* Makes the folder for names of the process' user, who may write to that folder but not to the one above it: else any user
 * could make it for another, and put links into it. */
void privileges_make_folder(const struct reading_request *request);

/* Leaves no more than the process itself may do; cannot be undone. Call after its profile was copied: it may have given up
 * privileges until then, and what it wrote afterwards is not in the copy. *ret_owner: whose the process is. False with errno set: do not go on. */
bool privileges_drop(const struct reading_request *request, struct procfs_owner *ret_owner);
/* Whether the process still is of the owner for whose processes they were dropped, and may do as much. Call after its profile was copied,
 * for the same reason. */
bool privileges_are_of(const struct reading_request *request, const struct procfs_owner *owner);

#endif
