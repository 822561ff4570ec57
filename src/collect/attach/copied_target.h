/* SPDX-License-Identifier: Apache-2.0 */
/* A target for a recorded process whose memory the collector does not own: it reads a copy. */
#ifndef COLLECT_ATTACH_COPIED_TARGET_H
#define COLLECT_ATTACH_COPIED_TARGET_H

#include "collect/profile/profile_copy.h"
#include "collect/process/target.h"

struct copied_target {
	struct recorded recorded;
	struct target *target; /* its memory is that of `copied` */
	struct profile_copy copied;
	struct profile_copy
		spare; /* used if no descriptor is open: a partial copy, cut short by the end, never replaces a complete one */
	struct cgroups cgroups;
};
#define COPIED_TARGET_INIT                                                                         \
	((struct copied_target){ .copied = PROFILE_COPY_INIT, .spare = PROFILE_COPY_INIT })

/* Finds the process and takes a first copy. -1 with the error set. Call copied_target_release in either case. */
int copied_target_begin(struct copied_target *other, pid_t pid, struct error *error);
void copied_target_release(struct copied_target *other);

/* Whether it has ended. */
bool copied_target_is_gone(const struct copied_target *other);
/* Takes another copy. False: it failed, and the last copy is kept. Must not be called while a worker reads the target. */
bool copied_target_copy(struct copied_target *other, enum profile_copy_parts parts);
/* Takes a last, full copy including the block map: from the open descriptor, or from the process unless it has ended. If
 * neither is possible, the last copy is kept. */
void copied_target_copy_last(struct copied_target *other, bool gone);

#endif
