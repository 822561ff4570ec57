/* SPDX-License-Identifier: Apache-2.0 */
/* Several recordings -> one. */
#ifndef COLLECT_MERGE_H
#define COLLECT_MERGE_H

#include "format/recording/recording.h"
#include "util/error.h"

/*
 * The processes of all recordings on one clock, that of the day: takes what the recordings own, leaves them empty.
 * Where they come from several hosts, each command says its own. -1 with the error set.
 */
int recordings_merge(struct recording *recordings, size_t count, struct recording *ret,
		     struct error *error);

#endif
