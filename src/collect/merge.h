/* SPDX-License-Identifier: Apache-2.0 */
/* Merges several recordings into one. */
#ifndef COLLECT_MERGE_H
#define COLLECT_MERGE_H

#include "format/recording/recording.h"
#include "util/error.h"

/*
 * Puts the processes of all recordings on one time line, by wall-clock time: takes what the recordings own and leaves them
 * empty. If they come from several hosts, each command is prefixed with its host. -1 with the error set.
 */
int recordings_merge(struct recording *recordings, size_t count, struct recording *ret,
		     struct error *error);

#endif
