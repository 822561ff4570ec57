/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes one child of the reader may read. One hostile profile can take over the child, and with it the readings of the
 * whole batch: so a batch has only processes of the same user and group in the same container, which could read and write each
 * other's memory without it. The child checks the user again, and the capabilities, after it has copied each profile.
 */
#ifndef AGENT_BATCH_H
#define AGENT_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "agent/processes.h"
#include "agent/reading/reading.h"

/* The process at `first`, and of the others those that are due until then and may be read with it. Returns how many. */
size_t batch_gather(const struct processes *processes, size_t first, uint64_t until_ns,
		    struct agent_process *ret[READING_BATCH_MAX]);

#endif
